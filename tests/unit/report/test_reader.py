from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import BadFileError, MissingInputError
from ci.record.verdict import Verdict
from ci.report import reader as module
from ci.report.reader import read_known, read_run
from test_selection.files import write_lines
from tests.unit.report.compare.making import add_catalog

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
    told = read_run(write(tmp_path, SUMMARY, row))
    assert (told.summary.run, told.summary.exit_code, told.summary.identity.device) == ("run-1", 0, "spyre")
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
    told = read_run(write(tmp_path, summary, *rows, planned=2))
    assert [row.id for row in told.rows] == [r"a.py::test[x=\ud800]", r"a.py::test[x=\udfff]"]
    assert told.rows[0].message == "odd \\udcff, whole \U0001f600"
    assert told.rows[1].message == r"\ud800 in letters"
    assert told.summary.notes == [r"\udc80"]


def test_a_quarantined_failure_is_not_red(tmp_path: Path) -> None:
    row = ROW | {"verdict": "failed", "quarantine": {"issue": "#1"}}
    assert read_run(write(tmp_path, SUMMARY, row)).green


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
    with pytest.raises(BadFileError, match="has the wrong form") as caught:
        read_run(write(tmp_path, SUMMARY, row))
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
    with pytest.raises(BadFileError, match="has the wrong form"):
        read_run(write(tmp_path, {**SUMMARY, **changed}, ROW))


def test_other_schemas_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="schema is 'spyre-ci/plan/1'"):
        read_run(write(tmp_path, SUMMARY | {"schema": "spyre-ci/plan/1"}, ROW))
    write(tmp_path, SUMMARY, ROW)
    write_lines(tmp_path / "results.jsonl.gz", "catalog", {"planned": 1}, [ROW])
    with pytest.raises(BadFileError, match="schema is 'spyre-ci/catalog/1'"):
        read_run(tmp_path)


def test_results_that_are_not_those_of_the_summary_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="holds 2 tests by name, and 1 were planned"):
        read_run(write(tmp_path, SUMMARY, ROW, ROW | {"id": "b"}))
    with pytest.raises(BadFileError, match="holds 1 tests by name, and 2 were planned"):
        read_run(write(tmp_path, SUMMARY | {"planned": 2}, ROW, ROW))


def test_more_than_agreed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path, SUMMARY, ROW)
    monkeypatch.setattr(module, "MAX_SUMMARY", 10)
    with pytest.raises(BadFileError, match="more than 10 bytes"):
        read_run(folder)
    monkeypatch.undo()
    monkeypatch.setattr(module, "MAX_TESTS", 0)
    with pytest.raises(BadFileError, match="more than 0 tests"):
        read_run(folder)


def test_nesting_without_end_is_refused_and_no_bug(tmp_path: Path) -> None:
    deep = '{"schema": "spyre-ci/summary/1", "x": ' + "[" * 100_000 + "]" * 100_000 + "}"
    write(tmp_path, SUMMARY, ROW)
    (tmp_path / "summary.json").write_text(deep)
    with pytest.raises(BadFileError):
        read_run(tmp_path)


def test_a_mark_that_is_nothing_forgives_nothing(tmp_path: Path) -> None:
    told = read_run(write(tmp_path, SUMMARY, ROW | {"verdict": "failed", "quarantine": None}))
    assert not told.green


@given(summary=st.binary(max_size=200), results=st.binary(max_size=200), packs=st.booleans())
def test_whatever_the_files_hold_is_a_user_s_error_and_no_bug(
    tmp_path_factory: pytest.TempPathFactory, summary: bytes, results: bytes, packs: bool
) -> None:
    folder = tmp_path_factory.mktemp("run")
    (folder / "summary.json").write_bytes(json.dumps(SUMMARY).encode() if packs else summary)
    (folder / "results.jsonl.gz").write_bytes(gzip.compress(results) if packs else results)
    with pytest.raises(BadFileError):
        read_run(folder)


def test_missing_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match=r"no summary\.json"):
        read_run(tmp_path)
    write(tmp_path, SUMMARY, ROW)
    (tmp_path / "results.jsonl.gz").unlink()
    with pytest.raises(MissingInputError, match=r"no results\.jsonl\.gz"):
        read_run(tmp_path)


def test_a_catalog_says_which_tests_there_are_and_which_files_it_could_not_collect(tmp_path: Path) -> None:
    add_catalog(tmp_path, ["a%3Ab.py::t", "c.py::t"], {"x:y.py": "ImportError"})
    known = read_run(write(tmp_path, SUMMARY, ROW)).known
    assert known is not None
    assert known.ids == {"a%3Ab.py::t", "c.py::t"}
    assert known.files == {"a%3Ab.py", "c.py", "x%3Ay.py"}
    assert known.broken == {"x%3Ay.py": "ImportError"}
    assert not known.partial
    restricted = SUMMARY | {"identity": WHO | {"restricted": "files a.py"}}
    assert read_run(write(tmp_path, restricted, ROW)).known == read_known(
        tmp_path / "catalog.jsonl.gz", partial=True
    )
    (tmp_path / "catalog.jsonl.gz").write_bytes(b"none")
    told = read_run(tmp_path)
    assert (told.known, bool(told.trouble)) == (None, True)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "has the wrong form"),
        ([{"schema": "spyre-ci/plan/1", "files": {}}], "schema is 'spyre-ci/plan/1'"),
        ([{"schema": "spyre-ci/catalog/1", "files": []}], "has the wrong form"),
        ([{"schema": "spyre-ci/catalog/1", "files": {}}, {"id": 3}], "has the wrong form"),
        ([{"schema": "spyre-ci/catalog/1", "files": {}}, []], "has the wrong form"),
    ],
)
def test_what_is_no_catalog_is_refused(lines: list[Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "catalog.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(one) + "\n" for one in lines).encode()))
    with pytest.raises(BadFileError, match=said):
        read_known(path, partial=False)


def test_a_catalog_of_more_tests_than_agreed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_TESTS", 2)
    add_catalog(tmp_path, [f"a.py::t{number}" for number in range(3)])
    with pytest.raises(BadFileError, match="has more than 2 tests"):
        read_known(tmp_path / "catalog.jsonl.gz", partial=False)
