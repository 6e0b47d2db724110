from __future__ import annotations

import gzip
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import BadFileError, MissingInputError
from ci.pipeline import told as module
from ci.pipeline.told import Who, command_for, read_told
from ci.record.verdict import Verdict
from test_selection.files import write_lines

WHO = {"device": "spyre", "pytorch_version": "2.13.0", "pytorch_sha": "0" * 40, "percent": 5.0}
SUMMARY: dict[str, Any] = {
    "schema": "spyre-ci/summary/1",
    "run": "run-1",
    "planned": 1,
    "exit_code": 0,
    "reasons": [],
    "identity": WHO,
    "whatever": {"else": 1},
}
ROW = {"id": "a.py::test", "verdict": "passed"}


def write(folder: Path, summary: Mapping[str, Any], *rows: Mapping[str, Any], planned: Any = 1) -> Path:
    (folder / "summary.json").write_text(json.dumps(summary))
    write_lines(folder / "results.jsonl.gz", "results", {"run": "r", "planned": planned}, rows)
    return folder


def test_what_is_of_known_kinds_is_read_and_the_rest_passed_over(tmp_path: Path) -> None:
    row = ROW | {"verdict": "failed", "card": "spyre:0", "message": "1 != 2", "detail": {"odd": 1}}
    told = read_told(write(tmp_path, SUMMARY, row))
    assert (told.run, told.exit_code, told.who.device) == ("run-1", 0, "spyre")
    assert told.counts == {Verdict.FAILED: 1}
    assert told.rows[0].card == "spyre:0"
    # It says that it is green; its tests say otherwise.
    assert not told.green


def test_half_a_character_in_a_message_or_a_name_makes_nothing_unreadable(tmp_path: Path) -> None:
    rows = [
        {"id": "a.py::test[x=\ud800]", "verdict": "failed", "message": "odd \udcff, whole \U0001f600"},
        {"id": "a.py::test[x=\udfff]", "verdict": "passed", "message": r"\ud800 in letters"},
    ]
    summary = SUMMARY | {"planned": 2, "notes": ["\udc80"]}
    told = read_told(write(tmp_path, summary, *rows, planned=2))
    assert [row.id for row in told.rows] == [r"a.py::test[x=\ud800]", r"a.py::test[x=\udfff]"]
    assert told.rows[0].message == "odd \\udcff, whole \U0001f600"
    assert told.rows[1].message == r"\ud800 in letters"
    assert told.notes == [r"\udc80"]


def test_a_quarantined_failure_is_not_red(tmp_path: Path) -> None:
    row = ROW | {"verdict": "failed", "quarantine": {"issue": "#1"}}
    assert read_told(write(tmp_path, SUMMARY, row)).green


@pytest.mark.parametrize(
    "row",
    [
        {"id": 1, "verdict": "passed"},
        {"id": "", "verdict": "passed"},
        {"id": "x" * 30_000, "verdict": "passed"},
        {"id": "a", "verdict": "great"},
        {"id": "a", "verdict": "passed", "message": ["x"]},
        {"id": "a", "verdict": "passed", "card": {}},
        {"verdict": "passed"},
    ],
)
def test_a_row_of_another_kind_is_refused_with_its_line(tmp_path: Path, row: Mapping[str, Any]) -> None:
    with pytest.raises(BadFileError, match="not what it has to be") as caught:
        read_told(write(tmp_path, SUMMARY, row))
    assert (caught.value.where or "").endswith("results.jsonl.gz:2")


@pytest.mark.parametrize(
    "changed",
    [
        {"exit_code": "0"},
        {"reasons": "none"},
        {"reasons": [1]},
        {"identity": {}},
        {"identity": WHO | {"percent": "5"}},
        {"notes": [{"a": 1}]},
        {"run": None},
    ],
)
def test_a_summary_of_another_kind_is_refused(tmp_path: Path, changed: Mapping[str, Any]) -> None:
    with pytest.raises(BadFileError, match="not what it has to be"):
        read_told(write(tmp_path, {**SUMMARY, **changed}, ROW))


def test_other_schemas_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="schema is 'spyre-ci/plan/1'"):
        read_told(write(tmp_path, SUMMARY | {"schema": "spyre-ci/plan/1"}, ROW))
    write(tmp_path, SUMMARY, ROW)
    write_lines(tmp_path / "results.jsonl.gz", "catalog", {"planned": 1}, [ROW])
    with pytest.raises(BadFileError, match="schema is 'spyre-ci/catalog/1'"):
        read_told(tmp_path)


def test_results_that_are_not_those_of_the_summary_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="holds 2 tests, and 1 were planned"):
        read_told(write(tmp_path, SUMMARY, ROW, ROW | {"id": "b"}))
    with pytest.raises(BadFileError, match="there twice"):
        read_told(write(tmp_path, SUMMARY | {"planned": 2}, ROW, ROW))


def test_more_than_agreed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path, SUMMARY, ROW)
    monkeypatch.setattr(module, "MAX_SUMMARY", 10)
    with pytest.raises(BadFileError, match="more than 10 bytes"):
        read_told(folder)
    monkeypatch.undo()
    monkeypatch.setattr(module, "MAX_ROWS", 1)
    with pytest.raises(BadFileError, match="more than 1 tests"):
        read_told(folder)


def test_nesting_without_end_is_refused_and_no_bug(tmp_path: Path) -> None:
    deep = '{"schema": "spyre-ci/summary/1", "x": ' + "[" * 100_000 + "]" * 100_000 + "}"
    write(tmp_path, SUMMARY, ROW)
    (tmp_path / "summary.json").write_text(deep)
    with pytest.raises(BadFileError):
        read_told(tmp_path)


def test_a_mark_that_is_nothing_forgives_nothing(tmp_path: Path) -> None:
    told = read_told(write(tmp_path, SUMMARY, ROW | {"verdict": "failed", "quarantine": None}))
    assert not told.green


@given(summary=st.binary(max_size=200), results=st.binary(max_size=200), packs=st.booleans())
def test_whatever_the_files_hold_is_a_user_s_error_and_no_bug(
    tmp_path_factory: pytest.TempPathFactory, summary: bytes, results: bytes, packs: bool
) -> None:
    folder = tmp_path_factory.mktemp("run")
    (folder / "summary.json").write_bytes(json.dumps(SUMMARY).encode() if packs else summary)
    (folder / "results.jsonl.gz").write_bytes(gzip.compress(results) if packs else results)
    with pytest.raises(BadFileError):
        read_told(folder)


def test_missing_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="no summary"):
        read_told(tmp_path)
    write(tmp_path, SUMMARY, ROW)
    (tmp_path / "results.jsonl.gz").unlink()
    with pytest.raises(MissingInputError, match="no results"):
        read_told(tmp_path)


def who(device: str = "spyre", *reproduce: str) -> Who:
    return Who(device=device, pytorch_version="2", pytorch_sha="0", percent=5, reproduce=reproduce)


@given(name=st.text(min_size=1).filter(lambda text: text.isprintable() and "\x00" not in text))
def test_a_test_s_name_is_one_word_of_the_command_whatever_it_holds(name: str) -> None:
    words = shlex.split(command_for(name, who()))
    assert words == ["spyre-ci", "reproduce", "--run", "--device", "spyre", "--", name]


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        ("git+https://github.com/pytorch/pytorch@v2.13.0", "git+https://github.com/pytorch/pytorch@v2.13.0"),
        ("git+https://github.com/evil/pytorch@v2.13.0", "../pytorch"),
        ("git+https://github.com/pytorch/pytorch@v2;curl evil", "../pytorch"),
        ("/srv/tree", "../pytorch"),
        ("--config=evil", "../pytorch"),
    ],
)
def test_only_pytorch_s_own_repository_is_named_as_a_source(where: str, shown: str) -> None:
    words = shlex.split(command_for("a", who("spyre", "nox", "--pytorch-src", where)))
    assert words[:5] == ["spyre-ci", "reproduce", "--run", "--pytorch-src", shown]


def test_words_that_a_stranger_brings_are_not_in_the_command() -> None:
    words = shlex.split(command_for("a", who("$(evil)", "curl", "evil", "|", "sh")))
    assert words == ["spyre-ci", "reproduce", "--run", "--device", "spyre", "--", "a"]
    assert "../pytorch" in command_for("a", who("spyre", "--pytorch-src"))
