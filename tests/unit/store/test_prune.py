"""What is old goes: jobs with their tests, states, uploads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from ci.store.identity import job_number, stored_number
from ci.store.prune import DAY_S, Pruned, give_back, prune, prune_daily
from ci.store.row_store import SqliteRowStore
from ci.store.rows import Job, TestRun
from ci.store.store import Row, Store
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


def add_job(store: Store, number: int, *, at: float, tests: int = 3, name: str = "nightly") -> None:
    reported = job_number(f"job-{number}", repository=REPOSITORY)
    row: Row = {
        "dynamoKey": f"{REPOSITORY}/{name}/{number}",
        "downstream_repo": REPOSITORY,
        "run_id": str(number),
        "started_at": "1971-01-01T00:00:00Z",
        "job_id": stored_number(reported, repository=REPOSITORY),
    }
    store.put(row, {"lane": "nightly"}, at=at)
    job = Job(workflow_id=number, workflow_run_attempt=1, job_id=reported)
    same = {**job.keys(), "file": "test_a.py", "classname": "A", "time": 0.5, "invoking_file": "test_a"}
    found = msgspec.convert([{**same, "name": f"test_{n}"} for n in range(tests)], list[TestRun])
    incoming = Incoming(repository=REPOSITORY, job=job, kind="test_run", name="all", sha256="0" * 64)
    Uploads(store, SqliteRowStore(store.transaction)).take(incoming, found, at=at)


def runs(store: Store) -> list[str]:
    return [row["run_id"] for row in store.database.rows("SELECT run_id FROM crcr_workflow_job")]


def counts(store: Store) -> dict[str, int]:
    return {
        table: store.database.rows(f"SELECT count(*) AS n FROM {table}")[0]["n"]  # noqa: S608  # ours
        for table in TABLES
    }


OLD = NOW - 100 * DAY_S
CLAIMED = "UPDATE crcr_workflow_job SET started_at = '2200-01-01T00:00:00Z' WHERE run_id = 2"
LATE = f"UPDATE upload SET at = {NOW} WHERE workflow_id = 1"  # noqa: S608  # ours


@pytest.mark.parametrize(
    ("first", "given", "meanwhile"),
    [
        (NOW, {}, ""),
        (NOW, {}, CLAIMED),  # neither keeps a job nor takes it away
        (OLD, {}, LATE),  # a job whose tests came late is as young as they
        (OLD, {"keep": {1}}, ""),
        (OLD, {"only": {2}}, ""),
    ],
)
def test_what_is_old_goes_with_everything_that_is_its_own(
    store: Store, rows: SqliteRowStore, *, first: float, given: dict[str, set[int]], meanwhile: str
) -> None:
    add_job(store, 1, at=first)
    alone = counts(store)
    add_job(store, 2, at=OLD)
    with store.transaction() as connection:
        connection.execute("UPDATE crcr_workflow_job SET id = CAST(run_id AS INTEGER)")
        connection.execute("INSERT INTO file_setup SELECT run_id, 1, job_id, 'f', 1 FROM crcr_workflow_job")
        connection.execute(meanwhile)
    before = NOW - DAY_S
    assert prune(store, rows, before=before, at=NOW, **given) == Pruned(jobs=1, uploads=1, tests=3)
    assert (runs(store), counts(store)) == (["1"], alone)
    assert store.database.tuples("SELECT workflow_id FROM file_setup") == [(1,)]
    assert prune(store, rows, before=before, at=NOW, **given) == Pruned()


def test_states_that_no_callback_needs_any_more_go(store: Store, rows: SqliteRowStore) -> None:
    with store.transaction() as connection:
        state = ("d", "DISPATCHED", NOW - 100 * DAY_S)
        connection.execute("INSERT INTO callback_state VALUES (?, ?, ?)", state)
    assert prune(store, rows, before=NOW, at=NOW) == Pruned(states=1)


def test_tests_two_jobs_share_stay_with_the_younger(store: Store, rows: SqliteRowStore) -> None:
    add_job(store, 1, at=NOW - 10 * DAY_S)
    (job,) = store.database.rows("SELECT downstream_repo, run_id, job_id FROM crcr_workflow_job")
    store.put({**job, "dynamoKey": "another"}, None, at=NOW)
    assert prune(store, rows, before=NOW - DAY_S, at=NOW) == Pruned(jobs=1)
    assert counts(store)["test_run"] == 3
    assert prune(store, rows, before=NOW + DAY_S, at=NOW) == Pruned(jobs=1, uploads=1, tests=3)
    assert counts(store)["job_card"] == 0


def test_rows_whose_job_is_gone_go_too(store: Store, rows: SqliteRowStore) -> None:
    add_job(store, 1, at=NOW - 10 * DAY_S)
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
def test_what_is_sent_of_a_job_while_it_goes_stays(store: Store, *, after: bool) -> None:
    add_job(store, 1, at=NOW - 100 * DAY_S, tests=5)
    # The very same file: whoever is told that it is here finds it here.
    again = Meanwhile(store, lambda: add_job(store, 1, at=NOW, tests=5), after=after)
    prune(store, again, before=NOW - 90 * DAY_S, at=NOW)
    (card,) = store.database.rows("SELECT sum(tests) AS n FROM job_card")
    (summary,) = store.database.rows("SELECT sum(tests) AS n FROM test_run_summary")
    found = counts(store)
    assert (found["crcr_workflow_job"], found["job_detail"], found["upload"]) == (1, 1, 1)
    assert (found["test_run"], card["n"], summary["n"]) == (5, 5, 5)


def test_a_prune_that_is_cut_off_is_finished_by_the_next(store: Store, rows: SqliteRowStore) -> None:
    def cut() -> None:
        raise KeyboardInterrupt

    add_job(store, 1, at=NOW - 100 * DAY_S)
    with pytest.raises(KeyboardInterrupt):
        prune(store, Meanwhile(store, cut, after=True), before=NOW - 90 * DAY_S, at=NOW)
    assert store.database.rows("SELECT 1 FROM settled_test_run") == []
    prune(store, rows, before=NOW - 90 * DAY_S, at=NOW)
    assert set(counts(store).values()) == {0}


def test_what_is_freed_goes_back_to_the_disk(store: Store, rows: SqliteRowStore) -> None:
    add_job(store, 1, at=NOW - 10 * DAY_S, tests=5000)
    give_back(store)
    before = store.path.stat().st_size
    prune(store, rows, before=NOW, at=NOW)
    give_back(store)
    assert store.path.stat().st_size < before / 3


def test_a_store_nobody_serves_is_pruned_once_a_day(store: Store, rows: SqliteRowStore) -> None:
    add_job(store, 1, at=NOW)
    days = {
        day: prune_daily(store, rows, keep_days=30, at=NOW + day * DAY_S).jobs for day in (29.5, 30.4, 30.6)
    }
    assert days == {29.5: 0, 30.4: 0, 30.6: 1}


def test_a_clock_that_was_ahead_does_not_keep_everything(store: Store, rows: SqliteRowStore) -> None:
    prune_daily(store, rows, keep_days=30, at=NOW + 3000 * DAY_S)
    add_job(store, 1, at=NOW)
    assert prune_daily(store, rows, keep_days=30, at=NOW + 31 * DAY_S).jobs == 1
