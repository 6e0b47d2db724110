"""The store of results on SQLite: rows merge by `dynamoKey`."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ci.core.errors import BadFileError
from ci.store.database import Database, SqliteDatabase, check_version, connect, unusable
from ci.store.schema import SQLITE, VERSION

CACHE_KIB = 32 * 1024
JOURNAL_PAGES = 8 * 1024  # 32 MiB
# The columns of a row that are defined; the others stay as they are.
Row = dict[str, str | int | float]


class Store:
    """Jobs and callback states in one SQLite file, usable from many threads and processes.

    Args:
        path: the file; it and its folder are made.
        database: what answers questions; None: the file itself.

    Raises:
        BadFileError: it is no database, another program's, or of another version.
    """

    def __init__(self, path: Path, database: Database | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._lock = threading.RLock()
        self.database = database or SqliteDatabase(path)
        try:
            self._writer = connect(path)
        except sqlite3.Error as error:  # such as a folder
            raise unusable(error, path) from error
        try:
            # Before the first table is made, so that what is pruned can be given back to the disk.
            self._writer.execute("PRAGMA auto_vacuum=INCREMENTAL")
            # FULL: what was answered 200 survives a loss of power, not only of the process.
            self._writer.execute("PRAGMA journal_mode=WAL")
            self._writer.execute("PRAGMA synchronous=FULL")
            # A large upload changes each page of an index many times: it stays in memory and in the journal.
            self._writer.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
            self._writer.execute(f"PRAGMA wal_autocheckpoint={JOURNAL_PAGES}")
            self._prepare()
        except sqlite3.Error as error:
            self.close()
            raise unusable(error, path) from error
        except BadFileError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._writer.close()

    def put(self, row: Row, detail: Row | None, *, at: float) -> None:
        """Write what a job's row defines, and what it says of itself, past the states.

        Args:
            row: with its `dynamoKey`.
            detail: columns of `job_detail`.
            at: seconds since the epoch.
        """
        with self.transaction() as connection:
            put(connection, row, detail, at)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction on the one writer; what is raised in the block takes all of it back.

        One within another of the same thread is a part of it.
        """
        with self._lock:
            within = self._writer.in_transaction
            if within:
                yield self._writer
                return
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                # A full disk makes SQLite roll back by itself.
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    @contextmanager
    def alone(self) -> Iterator[sqlite3.Connection]:
        """The one writer outside a transaction, for what SQLite does in none."""
        with self._lock:
            yield self._writer

    def _prepare(self) -> None:
        with self.transaction() as connection:
            if not check_version(connection, self.path):
                for statement in SQLITE:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {VERSION}")


def put(connection: sqlite3.Connection, row: Row, detail: Row | None, at: float) -> None:
    """Write what a job's row defines, and what it says of itself, in a transaction that is open."""
    merge(connection, "crcr_workflow_job", row, at=at)
    if detail is not None:
        merge(connection, "job_detail", {"dynamoKey": row["dynamoKey"], **detail})


def merge(connection: sqlite3.Connection, table: str, row: Row, *, at: float | None = None) -> None:
    """Write the defined columns of a row; those it does not define stay as they are.

    Args:
        connection: in a transaction.
        table: one whose key is `dynamoKey`.
        row: column names come from this package, never from a client; values are bound.
        at: seconds since the epoch, where the table notes when.
    """
    names = [*row, *(["_inserted_at"] if at is not None else [])]
    marks = ["?" for _ in row]
    values: list[str | int | float | None] = list(row.values())
    if at is not None:
        marks.append("strftime('%Y-%m-%dT%H:%M:%fZ', ?, 'unixepoch')")
        values.append(at)
    updates = ", ".join(f"{name} = excluded.{name}" for name in names)
    connection.execute(
        f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(marks)}) "  # noqa: S608  # see above
        f"ON CONFLICT (dynamoKey) DO UPDATE SET {updates}",
        values,
    )
