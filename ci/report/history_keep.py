"""Thinning out the history run by run: what each takes of its file, and forgetting those that are named."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ci.report.history_store import must_exist, open_store, read_store

_ROWS = """
SELECT number, run, run_id, started_at,
    (SELECT count(*) FROM results WHERE results.run = runs.number)
    + (SELECT count(*) FROM setups WHERE setups.run = runs.number) + 1
FROM runs ORDER BY started_at, number
"""
_FORGET = "DELETE FROM runs WHERE number = ? AND run = ? AND run_id = ? AND started_at = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run of the history.

    Attributes:
        number: of its row.
        run: the readable id, behind workflow and lane where a CI ran it.
        run_id: the CI's whole number.
        started_at: seconds since the epoch.
        bytes: its share of the file, by rows.
    """

    number: int
    run: str
    run_id: int
    started_at: float
    bytes: int


def stored_runs(path: Path) -> list[StoredRun]:
    """Every run of the history, the oldest first.

    Raises:
        MissingInputError: there is no history yet.
        BadFileError: the file is no history, or one of a newer version.
        SpyreCiError: another process holds the file for too long.
    """
    with read_store(path) as store:
        rows = store.execute(_ROWS).fetchall()
        pages, page, free = (
            store.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "page_size", "freelist_count")
        )
    size, total = (pages - free) * page, sum(row[4] for row in rows) or 1
    return [
        StoredRun(number=number, run=run, run_id=run_id, started_at=at, bytes=size * count // total)
        for number, run, run_id, at, count in rows
    ]


def forget_runs(path: Path, runs: Iterable[StoredRun]) -> int:
    """Take runs out of the history; how many were there still. One that was recorded anew meanwhile stays.

    Raises:
        MissingInputError: there is no history yet.
        BadFileError: the file is no history, or one of a newer version.
        SpyreCiError: another process holds the file for too long.
    """
    must_exist(path)
    with open_store(path) as store:
        gone = sum(
            store.execute(_FORGET, (one.number, one.run, one.run_id, one.started_at)).rowcount for one in runs
        )
        store.execute("DELETE FROM tests WHERE number NOT IN (SELECT test FROM results)")
    # The disk gets it back where the rest can be written anew; else what is recorded next takes the room.
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(path, timeout=0)) as store:
        store.execute("VACUUM")
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return gone
