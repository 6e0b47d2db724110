"""Keeping ClickHouse's copies of the jobs up to date with the SQLite store, which alone has transactions.

What changed is noted in the transaction that changes it, so nothing is lost while ClickHouse is away: it is
copied when it is back. A store that had no ClickHouse before is copied whole. Everything can be done twice.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ci.core.progress import ticking
from ci.store.clickhouse import Clickhouse
from ci.store.database import SqliteDatabase, StoreUnavailableError
from ci.store.store import Store

BATCH = 1000
EVERY_S = 1.0
STOP_S = 30.0
_TIMES = ("started_at", "completed_at", "_inserted_at")
_NO_TIME = "1970-01-01T00:00:00Z"
_DERIVED = frozenset({"repository_full_name", "duration_seconds"})
_WAITING = "SELECT dynamoKey, version FROM job_to_copy LIMIT ?"


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

    def copy(self) -> bool:
        """Copy everything that waits; whether ClickHouse took it."""
        with self._lock:
            try:
                while waiting := self._waiting():
                    self._copy(waiting)
            except (StoreUnavailableError, sqlite3.Error) as error:
                if not self._trouble:
                    self._warn(f"store: jobs wait to be copied: {error}")
                self._trouble = True
                return False
            if self._trouble:
                self._warn("store: the jobs that waited are copied")
            self._trouble = False
            return True

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
