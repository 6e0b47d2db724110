"""What a shell is offered: harmless, few, and nothing where anything is wrong."""

from __future__ import annotations

import gzip
import json
import os
import re
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.config import completing

HOSTILE = [
    "$(touch pwned)",
    "`id`",
    "a;b",
    "a'b",
    'a"b',
    "a\\",
    "a\nb",
    "a b",
    "-rf",
    "*",
    "a\x1b[2J",
    "ä",
    "a&b",
    "(x)",
    "~root",
    "!1",
]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def run(runs: Path, name: str, at: int, ids: list[str] | None = None) -> None:
    (runs / name).mkdir(parents=True)
    (runs / name / "run.json").write_text("{}")
    os.utime(runs / name / "run.json", (at, at))
    if ids is not None:
        rows = [{"schema": "spyre-ci/catalog/1"}, *({"id": one} for one in ids)]
        with gzip.open(runs / name / "catalog.jsonl.gz", "wt") as stream:
            stream.writelines(json.dumps(row) + "\n" for row in rows)
        os.utime(runs / name / "catalog.jsonl.gz", (at, at))


def test_runs_are_offered_the_newest_first(runs: Path) -> None:
    run(runs, "b-old", 1)
    run(runs, "a-new", 2)
    (runs / "no-run").mkdir()
    assert [name for name, _ in completing.runs("")] == ["latest", "a-new", "b-old"]
    assert completing.runs("b") == [("b-old", "")]


@pytest.mark.parametrize("name", [one for one in HOSTILE if "/" not in one])
def test_a_run_of_a_hostile_name_is_not_offered(runs: Path, name: str) -> None:
    run(runs, name, 1)
    assert completing.runs("") == [("latest", "the newest one")]
    assert completing.runs(name[:1]) == []


@pytest.mark.usefixtures("runs")
def test_stages_and_lanes_are_those_of_the_settings() -> None:
    Path("spyre-ci.yaml").write_text(
        "stages: {1: {percent: 5, cards: 7}}\n"
        "lanes: {nightly: {run: {pytorch: {}}, cadence: {cron: 1 2 * * *}}}\n"
    )
    assert ("1", "5 % on 7 cards") in completing.stages("")
    assert [name for name, _ in completing.lanes("ni")] == ["nightly"]
    assert completing.lanes("x") == []


def test_tests_are_those_of_the_newest_catalog(runs: Path) -> None:
    run(runs, "old", 1, ["test_old.py::T::test_a"])
    run(runs, "new", 2, ["test_a.py::T::test_a[op=add]", "test_b.py::T::test_b"])
    run(runs, "planned-elsewhere", 3)
    assert [name for name, _ in completing.tests("test_a")] == ["test_a.py::T::test_a[op=add]"]
    assert [name for name, _ in completing.tests("")] == [
        "test_a.py::T::test_a[op=add]",
        "test_b.py::T::test_b",
    ]


def test_of_too_many_tests_their_files_are_offered_then_their_classes(runs: Path) -> None:
    ids = [f"test_{file}.py::Test{cls}::test_{n}" for file in "ab" for cls in "XY" for n in range(120)]
    run(runs, "one", 1, ids)
    assert [name for name, _ in completing.tests("")] == ["test_a.py::", "test_b.py::"]
    assert [name for name, _ in completing.tests("test_a")] == [
        "test_a.py::TestX::",
        "test_a.py::TestY::",
    ] or [name for name, _ in completing.tests("test_a")] == ["test_a.py::"]
    assert [name for name, _ in completing.tests("test_a.py::")] == [
        "test_a.py::TestX::",
        "test_a.py::TestY::",
    ]
    assert len(completing.tests("test_a.py::TestX::")) == 120


@pytest.mark.parametrize("offered", [completing.runs, completing.stages, completing.lanes, completing.tests])
def test_what_is_broken_offers_nothing_and_says_nothing(
    runs: Path, capfd: pytest.CaptureFixture[str], offered: object
) -> None:
    run(runs, "one", 1)
    (runs / "one" / "catalog.jsonl.gz").write_bytes(b"\x1f\x8b garbage")
    Path("spyre-ci.yaml").write_text("stages: [\n")
    assert callable(offered)
    assert offered("") == []
    assert capfd.readouterr() == ("", "")


def test_a_cut_catalog_offers_nothing(runs: Path) -> None:
    run(runs, "one", 1, ["test_a.py::T::a"] * 1000)
    path = runs / "one" / "catalog.jsonl.gz"
    path.write_bytes(path.read_bytes()[:60])
    assert completing.tests("") == []


@given(st.lists(st.tuples(st.text(), st.text())), st.text(max_size=3))
def test_nothing_is_offered_that_a_shell_takes_for_more_than_a_name(
    offers: list[tuple[str, str]], incomplete: str
) -> None:
    for name, told in completing.harmless(offers, incomplete):
        assert name.startswith(incomplete)
        assert not set(name) & set("$`;&|<>(){}'\"\\!~*?# \t\n")
        assert set(told) <= set(string.ascii_letters + string.digits + " _.,%/-")


@given(
    st.lists(st.from_regex(r"[ab]{1,2}\.py::[XY]::t[0-9]{1,3}", fullmatch=True), unique=True),
    st.integers(0, 5),
)
def test_what_stands_for_tests_stands_for_each_of_them(names: list[str], most: int) -> None:
    found = completing.narrowed(names, "", most)
    assert all(any(name.startswith(one) for one in found) for name in names)
    assert all(re.search(r"::$", one) or one in names for one in found)


def test_an_id_that_json_escapes_is_read_as_it_is() -> None:
    line = json.dumps({"id": 'a.py::T::t["x"]'})
    assert list(completing.matching([line], "a.py")) == ['a.py::T::t["x"]']
