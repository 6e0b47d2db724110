"""The sweep of what is old: jobs with their tests, states, uploads; and when chores are due."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ci.hud.server.queries.jobs import list_jobs
from ci.hud.server.record import note_dispatched, record_callback
from ci.hud.server.serve import Chores
from ci.hud.server.sweep import SILENT_S
from ci.store.database import StoreUnavailableError
from ci.store.identity import job_number
from ci.store.prune import DAY_S, Pruned, give_back, prune, prune_daily
from ci.store.row_layout import TestRun
from ci.store.row_store import SqliteRowStore
from ci.store.rows import Job
from ci.store.store import Store
from ci.store.uploads import Incoming, Uploads

REPOSITORY = "o/r"
NOW = 1_785_000_000.0
TABLES = ("crcr_workflow_job", "job_detail", "test_run", "test_run_summary", "job_card", "upload")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "hud.sqlite")
    yield store
    store.close()


@pytest.fixture
def rows(store: Store) -> SqliteRowStore:
    return SqliteRowStore(store.transaction)


def add_job(store: Store, payload: dict[str, Any], number: int, *, at: float, tests: int = 3) -> None:
    workflow = {**payload["workflow"], "run_id": number, "check_run_id": f"job-{number}"}
    record_callback(store, {**payload, "workflow": workflow}, repository=REPOSITORY, at=at)
    job = Job(
        workflow_id=number,
        workflow_run_attempt=1,
        job_id=job_number(f"job-{number}", repository=REPOSITORY),
    )
    same = {**job.keys(), "file": "test_a.py", "classname": "A", "time": 0.5, "invoking_file": "test_a"}
    found = msgspec.convert([{**same, "name": f"test_{n}"} for n in range(tests)], list[TestRun])
    incoming = Incoming(repository=REPOSITORY, job=job, kind="test_run", name="all", sha256="0" * 64)
    Uploads(store, SqliteRowStore(store.transaction)).take(incoming, found, at=at)


def counts(store: Store) -> dict[str, int]:
    return {
        table: store.database.rows(f"SELECT count(*) AS n FROM {table}")[0]["n"]  # noqa: S608  # ours
        for table in TABLES
    }


def test_a_job_goes_with_everything_that_is_its_own(
    store: Store, rows: SqliteRowStore, payload: dict[str, Any]
) -> None:
    add_job(store, payload, 1, at=NOW - 100 * DAY_S)
    alone = counts(store)
    add_job(store, payload, 2, at=NOW)
    gone = prune(store, rows, before=NOW - 90 * DAY_S, at=NOW)
    assert gone == Pruned(jobs=1, uploads=1, tests=3)
    assert counts(store) == alone
    assert [row["run_id"] for row in list_jobs(store.database, limit=5)] == ["2"]


def test_a_dry_run_counts_and_takes_nothing(
    store: Store, rows: SqliteRowStore, payload: dict[str, Any]
) -> None:
    add_job(store, payload, 1, at=NOW - 100 * DAY_S)
    note_dispatched(store, delivery_id="d", repository=REPOSITORY, at=NOW - 100 * DAY_S)
    before = counts(store)
    told = prune(store, rows, before=NOW, at=NOW, dry_run=True)
    assert counts(store) == before
    assert prune(store, rows, before=NOW, at=NOW) == told == Pruned(jobs=1, uploads=1, tests=3, states=1)
    assert set(counts(store).values()) == {0}
    assert prune(store, rows, before=NOW, at=NOW) == Pruned()


def test_jobs_of_runs_that_are_to_be_kept_stay_with_their_tests(
    store: Store, rows: SqliteRowStore, payload: dict[str, Any]
) -> None:
    add_job(store, payload, 1, at=NOW - 100 * DAY_S)
    alone = counts(store)
    add_job(store, payload, 2, at=NOW - 100 * DAY_S)
    told = prune(store, rows, before=NOW, at=NOW, keep={1}, dry_run=True)
    assert prune(store, rows, before=NOW, at=NOW, keep={1}) == told == Pruned(jobs=1, uploads=1, tests=3)
    assert counts(store) == alone
    assert [row["run_id"] for row in list_jobs(store.database, limit=5)] == ["1"]


def test_a_claimed_start_neither_keeps_a_job_nor_takes_it_away(
    store: Store, rows: SqliteRowStore, payload: dict[str, Any]
) -> None:
    for number, start, at in ((1, "1971-01-01T00:00:00Z", NOW), (2, "2200-01-01T00:00:00Z", NOW - 9 * DAY_S)):
        workflow = {"started_at": start, "completed_at": start}
        add_job(store, {**payload, "workflow": {**payload["workflow"], **workflow}}, number, at=at)
    prune(store, rows, before=NOW - DAY_S, at=NOW)
    assert [row["run_id"] for row in list_jobs(store.database, limit=5)] == ["1"]


def test_tests_two_jobs_share_stay_with_the_younger(
    store: Store, rows: SqliteRowStore, payload: dict[str, Any]
) -> None:
    add_job(store, payload, 1, at=NOW - 10 * DAY_S)
    same = {**payload["workflow"], "run_id": 1, "check_run_id": "job-1", "name": "Another"}
    record_callback(store, {**payload, "workflow": same}, repository=REPOSITORY, at=NOW)
    assert prune(store, rows, before=NOW - DAY_S, at=NOW) == Pruned(jobs=1)
    assert counts(store)["test_run"] == 3
    assert prune(store, rows, before=NOW + DAY_S, at=NOW) == Pruned(jobs=1, uploads=1, tests=3)
    assert counts(store)["job_card"] == 0


def test_rows_whose_job_is_gone_go_too(store: Store, rows: SqliteRowStore, payload: dict[str, Any]) -> None:
    add_job(store, payload, 1, at=NOW - 10 * DAY_S)
    with store.transaction() as connection:
        connection.execute("DELETE FROM crcr_workflow_job")
    assert prune(store, rows, before=NOW - DAY_S, at=NOW) == Pruned(uploads=1, tests=3)
    assert counts(store)["test_run"] == counts(store)["job_card"] == 0


class Meanwhile(SqliteRowStore):
    """Rows of a store in which something happens while the first file of a job is taken away."""

    def __init__(self, store: Store, happens: Callable[[], None], *, after: bool) -> None:
        super().__init__(store.transaction)
        self._happens: list[Callable[[], None]] = [happens]
        self._after = after

    def remove(self, job: Job, upload: int) -> None:
        if self._after:
            super().remove(job, upload)
        if self._happens:
            self._happens.pop()()
        super().remove(job, upload)


@pytest.mark.parametrize("after", [True, False])
def test_a_job_that_is_heard_of_while_it_goes_stays_with_what_was_sent_then(
    store: Store, payload: dict[str, Any], *, after: bool
) -> None:
    add_job(store, payload, 1, at=NOW - 100 * DAY_S, tests=5)
    # The very same file: whoever is told that it is here finds it here.
    again = Meanwhile(store, lambda: add_job(store, payload, 1, at=NOW, tests=5), after=after)
    assert prune(store, again, before=NOW - 90 * DAY_S, at=NOW).jobs == 0
    (card,) = store.database.rows("SELECT sum(tests) AS n FROM job_card")
    (summary,) = store.database.rows("SELECT sum(tests) AS n FROM test_run_summary")
    found = counts(store)
    assert (found["crcr_workflow_job"], found["job_detail"], found["upload"]) == (1, 1, 1)
    assert (found["test_run"], card["n"], summary["n"]) == (5, 5, 5)


def test_a_job_whose_tests_came_late_is_as_young_as_they(
    store: Store, rows: SqliteRowStore, payload: dict[str, Any]
) -> None:
    add_job(store, payload, 1, at=NOW - 100 * DAY_S)
    add_job(store, payload, 2, at=NOW - 100 * DAY_S)
    with store.transaction() as connection:
        connection.execute("UPDATE upload SET at = ? WHERE workflow_id = 1", (NOW - DAY_S,))
    assert prune(store, rows, before=NOW - 90 * DAY_S, at=NOW) == Pruned(jobs=1, uploads=1, tests=3)
    assert [row["run_id"] for row in list_jobs(store.database, limit=5)] == ["1"]


def test_a_prune_that_is_cut_off_is_finished_by_the_next(
    store: Store, rows: SqliteRowStore, payload: dict[str, Any]
) -> None:
    def cut() -> None:
        raise KeyboardInterrupt

    add_job(store, payload, 1, at=NOW - 100 * DAY_S)
    with pytest.raises(KeyboardInterrupt):
        prune(store, Meanwhile(store, cut, after=True), before=NOW - 90 * DAY_S, at=NOW)
    assert counts(store)["crcr_workflow_job"] == 1
    prune(store, rows, before=NOW - 90 * DAY_S, at=NOW)
    assert set(counts(store).values()) == {0}


def test_what_is_freed_goes_back_to_the_disk(
    store: Store, rows: SqliteRowStore, payload: dict[str, Any]
) -> None:
    add_job(store, payload, 1, at=NOW - 10 * DAY_S, tests=5000)
    give_back(store)
    before = store.path.stat().st_size
    prune(store, rows, before=NOW, at=NOW)
    give_back(store)
    assert store.path.stat().st_size < before / 3


def test_a_file_of_before_gives_back_when_it_may_be_locked(tmp_path: Path) -> None:
    path = tmp_path / "hud.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE filler (text TEXT)")
    connection.executemany("INSERT INTO filler VALUES (?)", [("x" * 1000,) for _ in range(2000)])
    connection.commit()
    connection.execute("DROP TABLE filler")
    connection.commit()
    connection.close()
    store = Store(path)
    give_back(store)
    before = path.stat().st_size
    give_back(store, whole=True)
    assert path.stat().st_size < before / 3
    with store.alone() as writer:
        assert writer.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    store.close()


def chores(store: Store, said: list[str]) -> Chores:
    rows = SqliteRowStore(store.transaction)
    return Chores(store=store, rows=rows, warn=said.append, sweep_every_s=600, keep_days=30)


def running(store: Store, payload: dict[str, Any], at: float) -> None:
    note_dispatched(store, delivery_id="d-1", repository=REPOSITORY, at=at)
    content = {**payload, "event_type": "pull_request", "delivery_id": "d-1"}
    workflow = {**payload["workflow"], "status": "in_progress"}
    record_callback(store, {**content, "workflow": workflow}, repository=REPOSITORY, at=at)


def test_chores_are_done_at_the_start_and_when_they_are_due(store: Store, payload: dict[str, Any]) -> None:
    said: list[str] = []
    work = chores(store, said)
    running(store, payload, NOW)
    work.tick(NOW + SILENT_S - 60)
    work.tick(NOW + SILENT_S + 60)
    assert said == []
    work.tick(NOW + SILENT_S + 600)
    assert said == ["HUD store: 1 job was silent for 6 hours: timed out"]
    work.tick(NOW + 50 * DAY_S)
    assert said[1:] == ["HUD store: 1 job older than 30 days pruned"]


@pytest.mark.parametrize("error", [sqlite3.OperationalError, StoreUnavailableError])
def test_a_chore_that_fails_is_said_and_comes_again(
    store: Store, payload: dict[str, Any], monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def locked(*_: Any, **__: Any) -> int:
        raise error("database is locked")

    said: list[str] = []
    work = chores(store, said)
    running(store, payload, NOW)
    monkeypatch.setattr("ci.hud.server.serve.sweep", locked)
    work.tick(NOW + SILENT_S + 1)
    assert said == ["HUD store: sweep failed and is tried again: database is locked"]
    monkeypatch.undo()
    work.tick(NOW + SILENT_S + 2)
    assert said[1:] == ["HUD store: 1 job was silent for 6 hours: timed out"]


def test_a_store_nobody_serves_is_pruned_once_a_day(store: Store, payload: dict[str, Any]) -> None:
    rows = SqliteRowStore(store.transaction)
    record_callback(store, payload, repository=REPOSITORY, at=NOW)
    assert prune_daily(store, rows, keep_days=30, at=NOW + 29.5 * DAY_S) == Pruned()
    assert prune_daily(store, rows, keep_days=30, at=NOW + 30.4 * DAY_S) == Pruned()
    assert prune_daily(store, rows, keep_days=30, at=NOW + 30.6 * DAY_S).jobs == 1


def test_a_clock_that_was_ahead_does_not_keep_everything(store: Store, payload: dict[str, Any]) -> None:
    rows = SqliteRowStore(store.transaction)
    prune_daily(store, rows, keep_days=30, at=NOW + 3000 * DAY_S)
    record_callback(store, payload, repository=REPOSITORY, at=NOW)
    assert prune_daily(store, rows, keep_days=30, at=NOW + 31 * DAY_S).jobs == 1


def test_only_what_is_named_goes_and_no_word_of_it_that_comes_meanwhile(
    store: Store, payload: dict[str, Any]
) -> None:
    rows = SqliteRowStore(store.transaction)
    for number in (1, 2, 3):
        add_job(store, payload, number, at=NOW)
    chosen = [row["id"] for row in list_jobs(store.database, limit=9)[:2]]
    add_job(store, payload, 3, at=NOW + 60)
    assert prune(store, rows, before=NOW + 1, at=NOW + 1, only=chosen).jobs <= 2
    assert len(list_jobs(store.database, limit=9)) >= 1
