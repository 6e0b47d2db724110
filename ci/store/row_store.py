"""Where rows of tests are kept: what an upload needs of it, and SQLite's."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any, Protocol

from msgspec.structs import astuple

from ci.store.row_values import COLUMNS, StoredRow, Totals
from ci.store.rows import Job

_INSERT = f"INSERT INTO test_run ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608
# Few enough that whoever reports meanwhile hardly waits.
REMOVED_AT_A_TIME = 20_000
_REMOVE = """
DELETE FROM test_run WHERE id IN (
    SELECT id FROM test_run
    WHERE workflow_id = ? AND workflow_run_attempt = ? AND job_id = ? AND upload_id = ? LIMIT ?
)
"""
_COUNT = """
SELECT count(*) FROM test_run
WHERE workflow_id = ? AND workflow_run_attempt = ? AND job_id = ? AND upload_id = ?
"""
_ADD_CARDS = """
INSERT INTO job_card (workflow_id, workflow_run_attempt, job_id, card, verdict, tests, seconds)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET tests = tests + excluded.tests, seconds = seconds + excluded.seconds
"""
_ADD_SUMMARIES = """
INSERT INTO test_run_summary (workflow_id, workflow_run_attempt, job_id, invoking_file, file, classname,
    tests, errors, failures, skipped, successes, time)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET tests = tests + excluded.tests, errors = errors + excluded.errors,
    failures = failures + excluded.failures, skipped = skipped + excluded.skipped,
    successes = successes + excluded.successes, time = time + excluded.time
"""
_RECOUNT_CARDS = """
INSERT INTO job_card (workflow_id, workflow_run_attempt, job_id, card, verdict, tests, seconds)
SELECT workflow_id, workflow_run_attempt, job_id, card, verdict, count(*), sum(time)
FROM test_run WHERE workflow_id = ? AND workflow_run_attempt = ? AND job_id = ?
    AND upload_id NOT IN (SELECT id FROM upload WHERE NOT done)
GROUP BY workflow_id, workflow_run_attempt, job_id, card, verdict
"""
# Files still on their way are counted when they are whole.
# As ci.store.rows.counted_as has it: a failure first, then an error, then a skip.
_RECOUNT_SUMMARIES = """
INSERT INTO test_run_summary (workflow_id, workflow_run_attempt, job_id, invoking_file, file, classname,
    tests, errors, failures, skipped, successes, time)
SELECT workflow_id, workflow_run_attempt, job_id, invoking_file, file, classname, count(*),
    sum(error != '' AND failure = ''), sum(failure != ''),
    sum(skipped != '' AND failure = '' AND error = ''),
    sum(failure = '' AND error = '' AND skipped = ''), sum(time)
FROM test_run WHERE workflow_id = ? AND workflow_run_attempt = ? AND job_id = ?
    AND upload_id NOT IN (SELECT id FROM upload WHERE NOT done)
GROUP BY workflow_id, workflow_run_attempt, job_id, invoking_file, file, classname
"""
_FORGET = (
    "DELETE FROM job_card WHERE workflow_id = ? AND workflow_run_attempt = ? AND job_id = ?",
    "DELETE FROM test_run_summary WHERE workflow_id = ? AND workflow_run_attempt = ? AND job_id = ?",
)


class RowStore(Protocol):
    """Keeps rows of tests and the counts made of them.

    Attributes:
        chunk_rows: how many are inserted at a time.
        counts_anew: whether it counts a job's rows faster than somebody can on the way.
    """

    chunk_rows: int
    counts_anew: bool

    def begin(self, upload: int) -> None:
        """Note that rows of an upload will come, which nobody sees until `settle`."""

    def settle(self, upload: int) -> None:
        """Let an upload's rows be seen."""

    def pack(self, rows: Sequence[StoredRow]) -> Any:
        """A few rows as this store's `insert` takes them."""

    def insert(self, pieces: Sequence[Any]) -> None:
        """Add packed rows."""

    def remove(self, job: Job, upload: int) -> None:
        """Take an upload's rows away."""

    def count(self, job: Job, upload: int) -> int:
        """How many rows of an upload there are."""

    def add_totals(self, job: Job, totals: Totals) -> None:
        """Add to a job's counts."""

    def recount(self, job: Job) -> None:
        """Make a job's counts anew of its rows."""

    def forget_counts(self, job: Job) -> None:
        """Take a job's counts away."""


class SqliteRowStore:
    """Rows in the store's own file; each step is a short transaction, so that callbacks never wait for long.

    Args:
        transaction: begins one on the store's writer.
    """

    # Short enough that a callback hardly waits.
    chunk_rows = 5000
    counts_anew = False

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def begin(self, upload: int) -> None:
        """See RowStore; here the list of uploads tells."""

    def settle(self, upload: int) -> None:
        """See RowStore; here the list of uploads tells."""

    def pack(self, rows: Sequence[StoredRow]) -> list[tuple[Any, ...]]:
        """See RowStore."""
        return [astuple(row) for row in rows]

    def insert(self, pieces: Sequence[list[tuple[Any, ...]]]) -> None:
        """See RowStore."""
        with self._transaction() as connection:
            connection.executemany(_INSERT, chain.from_iterable(pieces))

    def remove(self, job: Job, upload: int) -> None:
        """See RowStore."""
        gone = REMOVED_AT_A_TIME
        while gone == REMOVED_AT_A_TIME:
            with self._transaction() as connection:
                values = (*job.numbers(), upload, REMOVED_AT_A_TIME)
                gone = connection.execute(_REMOVE, values).rowcount

    def count(self, job: Job, upload: int) -> int:
        """See RowStore."""
        with self._transaction() as connection:
            return int(connection.execute(_COUNT, (*job.numbers(), upload)).fetchone()[0])

    def add_totals(self, job: Job, totals: Totals) -> None:
        """See RowStore."""
        ids = job.numbers()
        with self._transaction() as connection:
            connection.executemany(_ADD_CARDS, ((*ids, *key, *told) for key, told in totals.cards.items()))
            connection.executemany(
                _ADD_SUMMARIES, ((*ids, *key, *told) for key, told in totals.summaries.items())
            )

    def recount(self, job: Job) -> None:
        """See RowStore."""
        with self._transaction() as connection:
            for statement in (*_FORGET, _RECOUNT_CARDS, _RECOUNT_SUMMARIES):
                connection.execute(statement, job.numbers())

    def forget_counts(self, job: Job) -> None:
        """See RowStore."""
        with self._transaction() as connection:
            for statement in _FORGET:
                connection.execute(statement, job.numbers())


class Transaction(Protocol):
    """Begins a transaction on a store's writer."""

    def __call__(self) -> AbstractContextManager[sqlite3.Connection]:
        """A block whose end commits; what is raised in it takes all of it back."""
