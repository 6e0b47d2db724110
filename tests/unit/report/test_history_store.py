"""Thinning out the history by name: what each run takes, and what is forgotten."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from ci.report.history_store import forget_runs, stored_runs

from ci.core.errors import MissingInputError
from ci.record.identity import RunIdentity
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.history import export_durations, record

WHO = RunIdentity(
    run="r", run_id=1, run_attempt=1, device="spyre", pytorch_version="2", pytorch_sha="c", stage=1,
    percent=5.0, started_at=1_000_000.0, provider="github", workflow="w",
)  # fmt: skip


def results(count: int, name: str = "t") -> list[Result]:
    return [
        Result(id=f"{name}{number}", verdict=Verdict.PASSED, seconds=1.0, attempts=1)
        for number in range(count)
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "history.sqlite"
    record(made, WHO, results(3000), {})
    record(made, replace(WHO, run_id=2, started_at=2_000_000.0), results(1000), {"a.py": [1.0]})
    return made


def test_each_run_has_its_share_of_the_file(path: Path) -> None:
    first, second = stored_runs(path)
    assert (first.run, first.run_id, first.started_at) == ("w/r", 1, 1_000_000.0)
    assert first.bytes / second.bytes == pytest.approx(3, rel=0.01)
    with contextlib.closing(sqlite3.connect(path)) as store:
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert first.bytes + second.bytes <= path.stat().st_size


def test_what_is_forgotten_gives_its_room_back(path: Path) -> None:
    first, second = stored_runs(path)
    before = path.stat().st_size
    assert forget_runs(path, [first]) == 1
    assert path.stat().st_size < before
    assert stored_runs(path) == [replace(second, bytes=stored_runs(path)[0].bytes)]
    assert len(export_durations(path).tests) == 1000


def test_a_run_that_was_recorded_anew_stays(path: Path) -> None:
    # The last row's number is given again.
    _, last = stored_runs(path)
    record(path, replace(WHO, run_id=2, started_at=3_000_000.0), results(1), {})
    assert stored_runs(path)[-1].number == last.number
    assert forget_runs(path, [last]) == 0
    assert len(stored_runs(path)) == 2


def test_a_file_that_is_read_is_not_written_anew(path: Path) -> None:
    first, _ = stored_runs(path)
    reader = sqlite3.connect(path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM runs").fetchone()
    assert forget_runs(path, [first]) == 1
    reader.close()
    assert len(stored_runs(path)) == 1


def test_there_has_to_be_a_history(tmp_path: Path) -> None:
    for call in (lambda: stored_runs(tmp_path / "none"), lambda: forget_runs(tmp_path / "none", [])):
        with pytest.raises(MissingInputError):
            call()
