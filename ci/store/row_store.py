"""Where rows of tests are kept: what an upload needs of it, the statements of both engines, and SQLite's."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any, Protocol

from msgspec.structs import astuple

from ci.store.row_values import COLUMNS, StoredRow, Totals
from ci.store.rows import Job
from ci.store.schema import CARDS, SUMMARIES, Table

_OF_JOB = "workflow_id = :workflow_id AND workflow_run_attempt = :workflow_run_attempt AND job_id = :job_id"
OF_UPLOAD = f"FROM test_run WHERE {_OF_JOB} AND upload_id = :upload_id"
COUNT = f"SELECT count(*) AS number {OF_UPLOAD}"  # our own words, here and below
# As ci.store.rows.summarize has it: a failure first, then an error, then a skip. Rows of a file that is on
# its way are counted once it is whole.
RECOUNT = (
    *(f"DELETE FROM {table.name} WHERE {_OF_JOB}" for table in (CARDS, SUMMARIES)),  # noqa: S608
    f"""
INSERT INTO job_card ({", ".join(CARDS.columns)})
SELECT workflow_id, workflow_run_attempt, job_id, card, verdict, count(*), sum(time)
FROM settled_test_run WHERE {_OF_JOB}
GROUP BY workflow_id, workflow_run_attempt, job_id, card, verdict
""",  # noqa: S608
    f"""
INSERT INTO test_run_summary ({", ".join(SUMMARIES.columns)})
SELECT workflow_id, workflow_run_attempt, job_id, invoking_file, file, classname, count(*),
    sum(CASE WHEN error != '' AND failure = '' THEN 1 ELSE 0 END),
    sum(CASE WHEN failure != '' THEN 1 ELSE 0 END),
    sum(CASE WHEN skipped != '' AND failure = '' AND error = '' THEN 1 ELSE 0 END),
    sum(CASE WHEN failure = '' AND error = '' AND skipped = '' THEN 1 ELSE 0 END), sum(time)
FROM settled_test_run WHERE {_OF_JOB}
GROUP BY workflow_id, workflow_run_attempt, job_id, invoking_file, file, classname
""",  # noqa: S608
)

# Few enough that whoever reports meanwhile hardly waits.
REMOVED_AT_A_TIME = 20_000
_INSERT = f"INSERT INTO test_run ({', '.join(COLUMNS)}) VALUES "  # noqa: S608
_MARKS = f"({', '.join('?' * len(COLUMNS))})"
_REMOVE = f"DELETE FROM test_run WHERE id IN (SELECT id {OF_UPLOAD} LIMIT :most)"  # noqa: S608


class RowStore(Protocol):
    """Keeps rows of tests and the counts made of them.

    Attributes:
        chunk_rows: how many are inserted at a time.
        remote: whether it is elsewhere than the list of uploads, so that it has no part in a transaction
            and is told which uploads are seen; it counts a job's rows faster than somebody can on the way.
    """

    chunk_rows: int
    remote: bool

    def show(self, uploads: Iterable[int]) -> None:
        """Let the rows of uploads be seen."""

    def hide(self, uploads: Iterable[int]) -> None:
        """Let the rows of uploads not be seen, those that are to come among them."""

    def pack(self, rows: Sequence[StoredRow]) -> Any:
        """A few rows as this store's `insert` takes them."""

    def insert(self, pieces: Sequence[Any]) -> None:
        """Add packed rows."""

    def remove(self, job: Job, upload: int) -> None:
        """Take an upload's rows away."""

    def count(self, job: Job, upload: int) -> int:
        """How many rows of an upload there are."""

    def recount(self, job: Job, added: Totals | None = None, /) -> None:
        """Make a job's counts anew of the rows that are seen.

        Args:
            job: whose they are.
            added: what is counted of the only rows that are new, for a store that need not count the others.
        """


class SqliteRowStore:
    """Rows in the store's own file; each step is a short transaction, so that callbacks never wait for long.

    Args:
        transaction: begins one on the store's writer.
    """

    # A third of a second: a callback hardly waits, and pages of the index are written a few times less.
    chunk_rows = 20_000
    remote = False

    def __init__(self, transaction: Callable[[], AbstractContextManager[sqlite3.Connection]]) -> None:
        self._transaction = transaction

    def show(self, uploads: Iterable[int]) -> None:
        """See RowStore; here the list of uploads tells."""

    def hide(self, uploads: Iterable[int]) -> None:
        """See RowStore; here the list of uploads tells."""

    def pack(self, rows: Sequence[StoredRow]) -> list[Any]:
        """See RowStore."""
        return [*chain.from_iterable(map(astuple, rows))]

    def insert(self, pieces: Sequence[list[Any]]) -> None:
        """See RowStore."""
        with self._transaction() as connection:
            for values in pieces:
                # One statement for all of them: other threads run while SQLite is at it.
                marks = ", ".join([_MARKS] * (len(values) // len(COLUMNS)))
                connection.execute(_INSERT + marks, values)

    def remove(self, job: Job, upload: int) -> None:
        """See RowStore."""
        gone = REMOVED_AT_A_TIME
        while gone == REMOVED_AT_A_TIME:
            values = job.keys() | {"upload_id": upload, "most": REMOVED_AT_A_TIME}
            with self._transaction() as connection:
                gone = connection.execute(_REMOVE, values).rowcount

    def count(self, job: Job, upload: int) -> int:
        """See RowStore."""
        with self._transaction() as connection:
            return int(connection.execute(COUNT, job.keys() | {"upload_id": upload}).fetchone()[0])

    def recount(self, job: Job, added: Totals | None = None, /) -> None:
        """See RowStore."""
        with self._transaction() as connection:
            if added is None:
                for statement in RECOUNT:
                    connection.execute(statement, job.keys())
                return
            for table, counts in ((CARDS, added.cards), (SUMMARIES, added.summaries)):
                rows = ((*job.numbers(), *key, *told) for key, told in counts.items())
                connection.executemany(_adding(table), rows)


def _adding(table: Table) -> str:
    """The statement that adds counts to those of the same key."""
    counts = ", ".join(
        f"{name} = {name} + excluded.{name}" for name in table.columns if name not in table.key
    )
    names, marks = ", ".join(table.columns), ", ".join("?" * len(table.columns))
    return f"INSERT INTO {table.name} ({names}) VALUES ({marks}) ON CONFLICT DO UPDATE SET {counts}"  # noqa: S608
