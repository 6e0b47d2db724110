from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci.cli.app import run
from ci.errors import BadFileError, MissingInputError
from ci.report.history import export_durations, record
from ci.report.history_runs import import_run
from ci.report.results import read_results, read_summary
from tests.pipeline_runs import report_folder

OUTCOMES = {"test_0.py::T::a": "passed", "test_0.py::T::b": "failed", "test_1.py::T::c": "passed"}


def test_a_run_that_was_reported_elsewhere_is_in_the_history_as_if_it_had_been_here(tmp_path: Path) -> None:
    folder, there, here = (
        report_folder(tmp_path / "run-1", OUTCOMES),
        tmp_path / "a.sqlite",
        tmp_path / "b.sqlite",
    )
    identity = import_run(there, folder)
    assert identity == read_summary(folder / "summary.json").identity
    record(here, identity, read_results(folder / "results.jsonl.gz"), {})
    assert export_durations(there) == export_durations(here)
    import_run(there, folder)
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
    import_run(tmp_path / "history.sqlite", folder)
    assert export_durations(tmp_path / "history.sqlite").files == {"test_0.py": 4.0}


def test_a_folder_that_holds_no_report_or_a_broken_one_is_refused(tmp_path: Path) -> None:
    folder = report_folder(tmp_path / "run-1", OUTCOMES)
    with pytest.raises(MissingInputError):
        import_run(tmp_path / "history.sqlite", tmp_path)
    (folder / "summary.json").write_text('{"schema": "spyre-ci/summary/1"}')
    with pytest.raises(BadFileError, match="a key is missing or of the wrong kind"):
        import_run(tmp_path / "history.sqlite", folder)
    assert not (tmp_path / "history.sqlite").exists()


def test_the_verb_takes_a_runs_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = report_folder(tmp_path / "run-1", OUTCOMES)
    monkeypatch.chdir(tmp_path)
    assert run(["history", "import", str(folder)]) == 0
    assert f"{folder}: run run-1, attempt 1, on spyre" in capsys.readouterr().out.replace("\n", " ")
    assert run(["history", "show"]) == 0
