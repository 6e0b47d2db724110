from __future__ import annotations

import gzip
import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci.cli.app import run
from ci.core.errors import BadFileError, MissingInputError
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.history import export_durations, record
from ci.report.history_runs import import_run
from ci.report.results import read_results, read_summary
from tests.pipeline_runs import T0, report_folder

NOW = T0 + 60
OUTCOMES = {"test_0.py::T::a": "passed", "test_0.py::T::b": "failed", "test_1.py::T::c": "passed"}


def test_a_run_that_was_reported_elsewhere_is_in_the_history_as_if_it_had_been_here(tmp_path: Path) -> None:
    folder, there, here = (
        report_folder(tmp_path / "run-1", OUTCOMES),
        tmp_path / "a.sqlite",
        tmp_path / "b.sqlite",
    )
    identity = import_run(there, folder, now=NOW)
    assert identity == read_summary(folder / "summary.json").identity
    record(here, identity, read_results(folder / "results.jsonl.gz"), {})
    assert export_durations(there) == export_durations(here)
    import_run(there, folder, now=NOW)
    assert export_durations(there) == export_durations(here)


def test_what_its_files_took_to_set_up_comes_with_its_journals(tmp_path: Path) -> None:
    folder = report_folder(tmp_path / "run-1", OUTCOMES)
    journal = next((folder / "journal").glob("0-*.jsonl"))
    lines = [
        {"e": "group_start", "t": 5.0, "file": "test_0.py"},
        {"e": "group_ready", "t": 9.0, "file": "test_0.py"},
    ]
    unchecked = [json.dumps(one | ({"setup_s": 4.0} if one["e"] == "group_ready" else {})) for one in lines]
    journal.write_text("\n".join(unchecked) + "\n", encoding="utf-8")
    import_run(tmp_path / "history.sqlite", folder, now=NOW)
    assert export_durations(tmp_path / "history.sqlite").files == {"test_0.py": 4.0}


def test_a_folder_that_holds_no_report_or_a_broken_one_is_refused(tmp_path: Path) -> None:
    folder = report_folder(tmp_path / "run-1", OUTCOMES)
    with pytest.raises(MissingInputError):
        import_run(tmp_path / "history.sqlite", tmp_path, now=NOW)
    (folder / "summary.json").write_text('{"schema": "spyre-ci/summary/1"}')
    with pytest.raises(BadFileError, match="a key is missing or of the wrong kind"):
        import_run(tmp_path / "history.sqlite", folder, now=NOW)
    assert not (tmp_path / "history.sqlite").exists()


def changed(folder: Path, who: dict[str, Any], row: dict[str, Any]) -> Path:
    """A report in which somebody wrote what they liked."""
    summary = json.loads((folder / "summary.json").read_text())
    summary["identity"] |= who
    (folder / "summary.json").write_text(json.dumps(summary))
    with gzip.open(folder / "results.jsonl.gz") as stream:
        lines = [json.loads(one) for one in stream]
    lines[1] |= row
    with gzip.open(folder / "results.jsonl.gz", "wb") as stream:
        stream.writelines(json.dumps(one).encode() + b"\n" for one in lines)
    return folder


@pytest.mark.parametrize(
    ("who", "row"),
    [
        ({"run_id": 10**30}, {}),
        ({"run_id": 0}, {}),
        ({"run_attempt": 2**63}, {}),
        ({"stage": 10**30}, {}),
        ({"percent": float("nan")}, {}),
        ({"percent": -1}, {}),
        ({"run_id": float("inf")}, {}),
        ({"started_at": "9999-01-01T00:00:00+00:00"}, {}),
        ({"started_at": "1901-01-01T00:00:00+00:00"}, {}),
        ({"started_at": "0001-01-01T00:00:00"}, {}),
        ({"device": "\ud800"}, {}),
        ({}, {"seconds": 10**30}),
        ({}, {"seconds": "abc"}),
        ({}, {"seconds": [1]}),
        ({}, {"seconds": True}),
        ({}, {"seconds": None}),
        ({}, {"seconds": -1e300}),
        ({}, {"seconds": 1e308}),
        ({}, {"seconds": float("nan")}),
        ({}, {"attempts": 10**30}),
        ({}, {"attempts": "1"}),
        ({}, {"card": 7}),
        ({}, {"id": 7}),
        ({}, {"id": "test_0.py::T::b"}),
        ({}, {"quarantine": "x"}),
    ],
)
def test_what_no_run_can_have_leaves_the_history_as_it_was(
    tmp_path: Path, who: dict[str, Any], row: dict[str, Any]
) -> None:
    history = tmp_path / "history.sqlite"
    import_run(history, report_folder(tmp_path / "good", OUTCOMES), now=NOW)
    before = export_durations(history)
    folder = changed(report_folder(tmp_path / "bad", OUTCOMES), who, row)
    with pytest.raises(BadFileError) as caught:
        import_run(history, folder, now=NOW)
    assert "not a history" not in str(caught.value)
    assert "move this one away" not in (caught.value.remedy or "")
    assert export_durations(history) == before


def test_values_that_the_store_cannot_take_are_not_told_as_a_broken_store(tmp_path: Path) -> None:
    folder = report_folder(tmp_path / "run-1", OUTCOMES)
    identity = read_summary(folder / "summary.json").identity
    unlike: Any = [1]
    for seconds in (10**30, unlike):
        result = Result(id="a", verdict=Verdict.PASSED, seconds=seconds)
        with pytest.raises(BadFileError, match="cannot take what it is given, and is as it was"):
            record(tmp_path / "history.sqlite", identity, [result], {})
    with pytest.raises(BadFileError, match="cannot take what it is given, and is as it was"):
        record(tmp_path / "history.sqlite", replace(identity, lane="\ud800"), [], {})


def test_runs_of_one_number_are_told_apart_by_their_workflow_lane_and_order(tmp_path: Path) -> None:
    history = tmp_path / "history.sqlite"
    for number, who in enumerate(
        (
            {"provider": "jenkins", "workflow": "spyre/nightly-pinned"},
            {"provider": "jenkins", "workflow": "spyre/nightly-main"},
            {"provider": "github", "workflow": "nightly", "lane": "nightly-pinned"},
            {"provider": "github", "workflow": "nightly", "lane": "nightly-main"},
        )
    ):
        folder = changed(report_folder(tmp_path / str(number) / "ci", OUTCOMES), who, {})
        import_run(history, folder, now=NOW)
        import_run(history, folder, now=NOW)
        for attempt in range(2):
            import_run(history, folder, now=NOW, run=f"night-{number}-1/{attempt}", lane="night")
    with sqlite3.connect(history) as store:
        lanes = [lane for (lane,) in store.execute("SELECT lane FROM runs")]
    assert len(lanes) == 12
    assert lanes.count("night") == 8


def test_the_verb_tells_a_folder_with_numbers_beyond_all_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = changed(report_folder(tmp_path / "run-1", OUTCOMES), {"run_id": 10**30}, {})
    monkeypatch.chdir(tmp_path)
    assert run(["history", "import", str(folder)]) == 2
    assert "which no run can have" in capsys.readouterr().err
