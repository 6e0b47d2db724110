"""The history: idempotent, bounded, and a source of durations."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from ci.core.errors import BadFileError, SpyreCiError
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report import history_store
from ci.report.history import DAY_S, export_durations, failure_shares, prune, record
from ci.report.history_imports import forget_imports
from ci.report.history_overview import overview
from ci.report.reconcile import Account

from .conftest import ADD, T0, identity


def passed(seconds: float, name: str = "a") -> Result:
    return Result(id=name, verdict=Verdict.PASSED, seconds=seconds, attempts=1)


def rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    store = sqlite3.connect(path)
    found = {
        "runs": store.execute("SELECT run, run_id, run_attempt FROM runs").fetchall(),
        "results": store.execute(
            "SELECT name, verdict, seconds, card, attempts "
            "FROM results JOIN tests ON number = test ORDER BY 1"
        ).fetchall(),
        "setups": store.execute("SELECT file, seconds FROM setups ORDER BY 1").fetchall(),
    }
    store.close()
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "history.sqlite"


def test_a_run_is_recorded_with_every_result_and_set_up(path: Path, account: Account) -> None:
    record(path, identity(), account.results, account.setup_seconds())
    found = rows(path)
    assert found["runs"] == [("nightly/nightly-pinned/2026-02-02-nightly-7", 7, 1)]
    assert len(found["results"]) == 11
    assert (ADD, "passed", 1.25, "spyre:0", 1) in found["results"]
    assert found["setups"] == [("test_a.py", 4.0), ("test_b.py", 2.5)]


def test_a_run_reported_again_with_more_journals_replaces_its_results(path: Path) -> None:
    record(path, identity(), [Result(id="a", verdict=Verdict.NOT_RUN)], {})
    record(path, identity(), [passed(2.0)], {})
    assert rows(path)["results"] == [("a", "passed", 2.0, None, 1)]


@pytest.mark.parametrize("change", [{"run_attempt": 2}, {"run_id": 8}, {"run": "other"}])
def test_another_attempt_or_run_stands_beside_it(path: Path, change: dict[str, object]) -> None:
    record(path, identity(), [passed(1.0)], {})
    record(path, replace(identity(), **change), [passed(1.0)], {})  # type: ignore[arg-type]  # one of three keys
    assert len(rows(path)["runs"]) == 2


def test_durations_are_medians_of_the_last_ten_passing_runs(path: Path) -> None:
    for number in range(14):
        who = replace(identity(), run_id=number + 1, started_at=T0 + number)
        record(path, who, [passed(float(number))], {"a.py": [float(number), float(number), 99.0]})
    durations = export_durations(path)
    assert durations.tests == {"a": 8.5}
    assert durations.files == {"a.py": 8.5}


@pytest.mark.parametrize("verdict", [one for one in Verdict if one is not Verdict.PASSED])
def test_only_a_pass_says_how_long_a_test_takes(path: Path, verdict: Verdict) -> None:
    record(path, identity(), [passed(3.0)], {})
    other = replace(passed(500.0), verdict=verdict)
    record(path, replace(identity(), run_id=8, started_at=T0 + 9), [other], {})
    assert export_durations(path).tests == {"a": 3.0}


def test_durations_can_be_those_of_one_device(path: Path) -> None:
    record(path, identity(), [passed(3.0)], {"a.py": [1.0]})
    record(path, replace(identity(), run_id=8, device="cpu"), [passed(1.0)], {"a.py": [5.0]})
    assert export_durations(path, device="cpu").tests == {"a": 1.0}
    assert export_durations(path, device="spyre").files == {"a.py": 1.0}
    assert export_durations(path).tests == {"a": 2.0}


def test_failures_are_a_share_of_the_runs_that_came_to_an_outcome(path: Path) -> None:
    names = ("failed", "flaky", "passed", "passed", "not_run", "hardware")
    for number, verdict in enumerate(map(Verdict, names)):
        results = [replace(passed(1.0), verdict=verdict), passed(1.0, "always green")]
        record(path, replace(identity(), run_id=number + 1), results, {})
    record(path, replace(identity(), run_id=9, device="cpu"), [passed(1.0)], {})
    assert failure_shares(path, device="spyre") == {"a": 0.5}
    assert failure_shares(path, device="cpu") == {}


@pytest.mark.parametrize("name", ['q"\\', "\udc80", "\x00|", "é漢😀", "'; DROP TABLE runs; --"])
def test_any_name_comes_back_as_it_was(path: Path, name: str) -> None:
    record(path, identity(), [replace(passed(1.0, name), card=name)], {name: [2.0]})
    assert export_durations(path).tests == {name: 1.0}
    assert export_durations(path).files == {name: 2.0}


def test_pruning_takes_old_runs_and_the_tests_only_they_knew(path: Path) -> None:
    record(path, identity(), [passed(1.0), passed(1.0, "old")], {"a.py": [1.0]})
    record(path, replace(identity(), run_id=8, started_at=T0 + 5 * DAY_S), [passed(3.0)], {"b.py": [1.0]})
    assert prune(path, keep_days=10, now=T0 + 9 * DAY_S) == 0
    assert prune(path, keep_days=5, now=T0 + 9 * DAY_S) == 1
    found = rows(path)
    assert [row[1] for row in found["runs"]] == [8]
    assert [row[0] for row in found["results"]] == ["a"]
    assert found["setups"] == [("b.py", 1.0)]
    store = sqlite3.connect(path)
    assert store.execute("SELECT name FROM tests").fetchall() == [("a",)]
    store.close()


def test_pruning_leaves_what_is_to_be_kept(path: Path) -> None:
    record(path, identity(), [passed(1.0)], {})
    record(path, replace(identity(), run_id=8), [passed(3.0)], {})
    asked: list[tuple[str, int]] = []

    def keeps(run: str, run_id: int) -> bool:
        asked.append((run, run_id))
        return run_id == 8

    assert prune(path, 1, T0 + 9 * DAY_S, keeps=keeps, dry_run=True) == 1
    assert prune(path, 1, T0 + 9 * DAY_S, keeps=keeps) == 1
    assert [row[1] for row in rows(path)["runs"]] == [8]
    assert asked[:2] == [(identity().key[2], 7), (identity().key[2], 8)]


def test_a_run_is_recorded_whole_or_not_at_all(path: Path) -> None:
    record(path, identity(), [passed(1.0)], {})
    before = rows(path)
    with pytest.raises(BadFileError, match="UNIQUE"):
        record(path, identity(), [passed(2.0), passed(3.0)], {})
    assert rows(path) == before


def test_readers_go_on_while_it_is_written(path: Path) -> None:
    record(path, identity(), [], {})
    store = sqlite3.connect(path)
    assert store.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


def test_a_history_that_another_process_holds_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(path, identity(), [], {})
    monkeypatch.setattr(history_store, "BUSY_TIMEOUT_S", 0.01)
    store = sqlite3.connect(path)
    store.execute("BEGIN IMMEDIATE")
    with pytest.raises(
        SpyreCiError, match=r"history\.sqlite: the history cannot be used: database is locked"
    ):
        record(path, identity(), [], {})
    store.close()


def test_a_history_is_read_while_a_report_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(path, identity(), [passed(2.0)], {})
    monkeypatch.setattr(history_store, "BUSY_TIMEOUT_S", 0.01)
    store = sqlite3.connect(path)
    store.execute("BEGIN IMMEDIATE")
    store.execute("DELETE FROM results")
    assert export_durations(path).tests == {"a": 2.0}
    assert failure_shares(path, device="spyre") == {}
    assert overview(path)[0][0].runs == 1
    assert prune(path, 1, T0 + 3 * DAY_S, dry_run=True) == 1
    assert forget_imports(path, dry_run=True) == 0
    store.close()


def test_a_history_in_a_folder_that_cannot_be_written_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(path, identity(), [passed(2.0)], {})
    # Root may write anywhere, so the system is asked on a user's behalf.
    monkeypatch.setattr("os.access", lambda *_: False)
    before = sorted(path.parent.iterdir())
    assert export_durations(path).tests == {"a": 2.0}
    assert sorted(path.parent.iterdir()) == before


def test_a_history_is_found_whatever_its_folder_is_called(tmp_path: Path) -> None:
    odd = tmp_path / "50% done? #1 ü" / "history.sqlite"
    record(odd, identity(), [passed(2.0)], {})
    assert odd.is_file()
    assert export_durations(odd).tests == {"a": 2.0}


def test_a_file_that_is_no_history_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("not a database, and long enough to be looked at" * 50)
    with pytest.raises(BadFileError, match="is not a history of runs"):
        record(path, identity(), [], {})
