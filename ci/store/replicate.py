"""Keeping ClickHouse's copies of the jobs up to date with the SQLite store, which alone has transactions.

What changed is noted in the transaction that changes it, so nothing is lost while ClickHouse is away: it is
copied when it is back. A store that had no ClickHouse before is copied whole. A restore leaves a mark in the
store; whoever copies sees it first, and takes back what the restored store never had. Everything here can be
done twice.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from ci.core.progress import ticking
from ci.store.clickhouse import Clickhouse, ClickhouseRowStore
from ci.store.database import SqliteDatabase, StoreUnavailableError
from ci.store.rows import Job
from ci.store.store import Store
from ci.store.uploads import FULL

# A statement of so many keys is a tenth of what ClickHouse reads.
KEYS_A_QUERY = 500
_MARKED = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = :name"
_COPY_ALL = """
INSERT INTO job_to_copy SELECT dynamoKey, 1 FROM crcr_workflow_job WHERE true
ON CONFLICT (dynamoKey) DO UPDATE SET version = version + 1
"""
_LEDGER = "SELECT workflow_id, workflow_run_attempt, job_id, id, kind, stored, done FROM upload"
_HELD = """
SELECT workflow_id, workflow_run_attempt, job_id, upload_id, count(*) AS number FROM test_run
GROUP BY workflow_id, workflow_run_attempt, job_id, upload_id
"""
_CARDS = """
SELECT workflow_id, workflow_run_attempt, job_id, sum(tests) AS number FROM job_card
GROUP BY workflow_id, workflow_run_attempt, job_id
"""
_SUMMARIES = """
SELECT workflow_id, workflow_run_attempt, job_id, count(*) AS number FROM test_run_summary
GROUP BY workflow_id, workflow_run_attempt, job_id
"""
_OF_JOB = "workflow_id, workflow_run_attempt, job_id"

JobKey = tuple[int, int, int]
RowsKey = tuple[int, int, int, int]
BATCH = 1000
EVERY_S = 1.0
STOP_S = 30.0
_TIMES = ("started_at", "completed_at", "_inserted_at")
_NO_TIME = "1970-01-01T00:00:00Z"
_DERIVED = frozenset({"repository_full_name", "duration_seconds"})
_WAITING = "SELECT dynamoKey, version FROM job_to_copy LIMIT ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What ClickHouse holds: tests by job and upload, and by job those counted by card and the summaries."""

    tests: Mapping[RowsKey, int]
    cards: Mapping[JobKey, int]
    summaries: Mapping[JobKey, int]


class Listed(NamedTuple):
    """An upload in the ledger."""

    workflow_id: int
    workflow_run_attempt: int
    job_id: int
    id: int
    kind: str
    stored: int
    done: int

    @property
    def job(self) -> JobKey:
        """Whose it is."""
        return self.workflow_id, self.workflow_run_attempt, self.job_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """What has to change.

    Attributes:
        rows: tests to take away, by job and upload.
        lost: uploads whose tests are not what the ledger says, so that their files can be sent again.
        recount: jobs whose counts are made anew.
        forget: jobs whose counts go.
    """

    rows: Sequence[RowsKey]
    lost: Sequence[int]
    recount: Sequence[JobKey]
    forget: Sequence[JobKey]


def mark_restored(connection: sqlite3.Connection) -> None:
    """Note in a store that ClickHouse has to be taken back to it."""
    there = connection.execute(_MARKED, {"name": "upload"}).fetchone()[0]
    connection.execute("CREATE TABLE IF NOT EXISTS restored (last_upload INTEGER NOT NULL)")
    connection.execute("DELETE FROM restored")
    last = "SELECT coalesce(max(id), 0) FROM upload" if there else "SELECT 0"
    connection.execute(f"INSERT INTO restored {last}")  # our own words


def realign(store: Store, clickhouse: Clickhouse) -> str:
    """Make ClickHouse what a restored store says; empties and refills the jobs, keeps the tests that fit.

    Args:
        store: the ledger.
        clickhouse: where the copies are.

    Returns:
        A line for people; empty where the store was not restored.

    Raises:
        StoreUnavailableError: ClickHouse is not there; the mark stays.
    """
    with store.transaction() as connection:
        if not connection.execute(_MARKED, {"name": "restored"}).fetchone()[0]:
            return ""
        last = int(connection.execute("SELECT last_upload FROM restored").fetchone()[0])
    for table in ("crcr_workflow_job", "job_detail"):
        clickhouse.do(f"TRUNCATE TABLE {table}")
    with store.transaction() as connection:
        connection.execute(_COPY_ALL)
    # Before the ledger is read: what is sent meanwhile is in the ledger before its first test is here.
    held = _held(clickhouse)
    with store.transaction() as connection:
        ledger = [Listed(*row) for row in connection.execute(_LEDGER)]
    found = differences(held, ledger, last=last)
    _take_away(clickhouse, found)
    with store.transaction() as connection:
        connection.executemany("DELETE FROM upload WHERE id = ?", [(number,) for number in found.lost])
        connection.execute("DROP TABLE IF EXISTS restored")
    again = f"; {len(found.lost)} files of tests it has no more can be sent again" if found.lost else ""
    return f"HUD store: ClickHouse is taken back to what was restored{again}"


def differences(held: Held, ledger: Iterable[Listed], *, last: int) -> Differences:
    """What of ClickHouse does not fit a ledger; pure.

    Args:
        held: by ClickHouse.
        ledger: the uploads of the store.
        last: the highest upload that was restored; those after it are being sent now and are left alone.
    """
    listed = list(ledger)
    known = {(*one.job, one.id) for one in listed}
    rows = [key for key in held.tests if key not in known]
    whole = [one for one in listed if one.done and one.id <= last]
    lost = [
        one for one in whole if not _is_summary(one) and held.tests.get((*one.job, one.id), 0) != one.stored
    ]
    rows += [(*one.job, one.id) for one in lost if (*one.job, one.id) in held.tests]
    changed = {key[:3] for key in rows} | {one.job for one in lost}
    # A summary that came alone has no tests to count again; where others took its place it is gone.
    lost += [
        one
        for one in whole
        if _is_summary(one) and (one.job in changed or (one.stored and one.job not in held.summaries))
    ]
    gone = {one.id for one in lost}
    left = [one for one in listed if one.id not in gone]
    full = {one.job for one in left if one.kind in FULL}
    tests = _tests_of_jobs(held.tests, without=set(rows))
    recount = {job for job in full if job in changed or held.cards.get(job, 0) != tests.get(job, 0)}
    summed = {one.job for one in left if _is_summary(one)}
    forget = (changed | set(held.cards) | set(held.summaries)) - full - summed
    return Differences(rows=sorted(rows), lost=sorted(gone), recount=sorted(recount), forget=sorted(forget))


def _is_summary(one: Listed) -> bool:
    return one.kind == "test_run_summary"


def _tests_of_jobs(tests: Mapping[RowsKey, int], *, without: set[RowsKey]) -> dict[JobKey, int]:
    made: dict[JobKey, int] = {}
    for key, number in tests.items():
        if key not in without:
            made[key[:3]] = made.get(key[:3], 0) + number
    return made


def _held(clickhouse: Clickhouse) -> Held:
    def by_job(query: str) -> dict[JobKey, int]:
        return {
            (row["workflow_id"], row["workflow_run_attempt"], row["job_id"]): int(row["number"])
            for row in clickhouse.rows(query)
        }

    tests = {
        (row["workflow_id"], row["workflow_run_attempt"], row["job_id"], row["upload_id"]): int(row["number"])
        for row in clickhouse.rows(_HELD)
    }
    return Held(tests=tests, cards=by_job(_CARDS), summaries=by_job(_SUMMARIES))


def _take_away(clickhouse: Clickhouse, found: Differences) -> None:
    for keys in _texts(found.rows):
        clickhouse.do(f"DELETE FROM test_run WHERE ({_OF_JOB}, upload_id) IN ({keys})")  # noqa: S608  # numbers
    for keys in _texts(found.forget):
        for table in ("job_card", "test_run_summary"):
            clickhouse.do(f"DELETE FROM {table} WHERE ({_OF_JOB}) IN ({keys})")  # noqa: S608  # the same
    rows = ClickhouseRowStore(clickhouse)
    for workflow_id, attempt, job_id in found.recount:
        rows.recount(Job(workflow_id=workflow_id, workflow_run_attempt=attempt, job_id=job_id))


def _texts(keys: Sequence[tuple[int, ...]]) -> Iterator[str]:
    for start in range(0, len(keys), KEYS_A_QUERY):
        yield ", ".join(f"({', '.join(map(str, key))})" for key in keys[start : start + KEYS_A_QUERY])


class Copier:
    """Copies what changed.

    Args:
        store: the jobs.
        clickhouse: where their copies are.
        warn: takes lines for people.
    """

    def __init__(self, store: Store, clickhouse: Clickhouse, *, warn: Callable[[str], None]) -> None:
        self._store = store
        self._reads = SqliteDatabase(store.path)
        self._clickhouse = clickhouse
        self._warn = warn
        self._lock = threading.Lock()
        self._trouble = False
        self._aligned = False

    def copy(self) -> bool:
        """Copy everything that waits; whether ClickHouse took it."""
        with self._lock:
            try:
                self._align()
                while waiting := self._waiting():
                    self._copy(waiting)
            except (StoreUnavailableError, sqlite3.Error) as error:
                if not self._trouble:
                    self._warn(f"HUD store: jobs wait to be copied: {error}")
                self._trouble = True
                return False
            if self._trouble:
                self._warn("HUD store: the jobs that waited are copied")
            self._trouble = False
            return True

    def _align(self) -> None:
        # A store is restored while nobody has it open, so once is enough.
        if not self._aligned:
            if said := realign(self._store, self._clickhouse):
                self._warn(said)
            self._aligned = True

    def _waiting(self) -> list[tuple[str, int]]:
        with self._store.transaction() as connection:
            return connection.execute(_WAITING, (BATCH,)).fetchall()

    def _copy(self, waiting: Sequence[tuple[str, int]]) -> None:
        keys = [key for key, _ in waiting]
        jobs, details = (self._rows(table, keys) for table in ("crcr_workflow_job", "job_detail"))
        gone = set(keys) - {row["dynamoKey"] for row in jobs}
        for key in sorted(gone):
            for table in ("crcr_workflow_job", "job_detail"):
                self._clickhouse.do(f"DELETE FROM {table} WHERE dynamoKey = :key", {"key": key})  # noqa: S608
        self._clickhouse.insert("crcr_workflow_job", [_job(row) for row in jobs])
        self._clickhouse.insert("job_detail", details)
        with self._store.transaction() as connection:
            connection.executemany("DELETE FROM job_to_copy WHERE dynamoKey = ? AND version = ?", waiting)

    def _rows(self, table: str, keys: Sequence[str]) -> list[dict[str, Any]]:
        names = {f"k{place}": key for place, key in enumerate(keys)}
        marks = ", ".join(f":{name}" for name in names)
        return self._reads.rows(f"SELECT * FROM {table} WHERE dynamoKey IN ({marks})", names)  # noqa: S608


def _job(row: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in row.items() if name not in _DERIVED}
    return kept | {name: kept[name] or _NO_TIME for name in _TIMES}


@contextmanager
def copying(copier: Copier) -> Iterator[None]:
    """Copy beside a server, every second and once more at its end."""
    copier.copy()
    try:
        with ticking(copier.copy, EVERY_S, name="hud-copying", stop_s=STOP_S):
            yield
    finally:
        copier.copy()
