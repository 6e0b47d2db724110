"""Asking a store: the one query language of the pages and the read API, whatever keeps the rows.

Queries are SQL that SQLite and ClickHouse both read, with `:name` for values. So they keep to joins, CASE,
WITH, `count`, `sum`, `avg`, `min`, `max`, `coalesce`, `substr`, `row_number() OVER`, LIKE and IN; a condition
is summed as `sum(CASE WHEN … THEN 1 ELSE 0 END)`; jobs are read from `crcr_workflow_job_ranked`, in which
times are text, and compared as such; JSON is read in Python. Tests are read from `settled_test_run`: a file's
rows are in it once the file is whole.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from ci.core.errors import BadFileError, SpyreCiError
from ci.store.schema import VERSION

BUSY_TIMEOUT_S = 15.0
Value = str | int | float | None
Row = dict[str, Any]


def moment(epoch_s: float) -> str:
    """Seconds since the epoch as the text rows have, so that texts compare as times."""
    return datetime.fromtimestamp(max(epoch_s, 0.0), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class StoreUnavailableError(Exception):
    """The store cannot be asked or written to now; whoever sent something keeps it and comes again."""


class Database(Protocol):
    """What answers queries."""

    def __hash__(self) -> int:
        """Tell databases apart, where what one answered is remembered."""

    def rows(self, query: str, values: Mapping[str, Value] | None = None) -> list[Row]:
        """The rows of a query, in its order.

        Times come as the text `2026-11-22T04:05:06.000007Z`, empty where there is none.

        Args:
            query: SQL as the module says.
            values: of its `:name`s.

        Raises:
            StoreUnavailableError: it cannot answer now.
        """

    def tuples(self, query: str, values: Mapping[str, Value] | None = None) -> Sequence[tuple[Any, ...]]:
        """The rows of a query without names, which cost the most where rows are hundreds of thousands.

        Args:
            query: SQL as the module says.
            values: of its `:name`s.

        Raises:
            StoreUnavailableError: it cannot answer now.
        """


class SqliteDatabase:
    """The store's file, asked through a connection of its own for each query.

    So readers neither wait for the writer nor see half of a transaction, and need no right to write.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def rows(self, query: str, values: Mapping[str, Value] | None = None) -> list[Row]:
        """See Database."""
        with closing(_connect_to_read(self._path)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query, dict(values or {}))]

    def tuples(self, query: str, values: Mapping[str, Value] | None = None) -> Sequence[tuple[Any, ...]]:
        """See Database."""
        with closing(_connect_to_read(self._path)) as connection:
            return connection.execute(query, dict(values or {})).fetchall()

    def check(self) -> None:
        """Refuse a file that is no store of this version.

        Raises:
            BadFileError: it is of another version, or another program's.
        """
        with closing(_connect_to_read(self._path)) as connection:
            check_version(connection, self._path)


def unusable(error: sqlite3.Error, path: Path) -> SpyreCiError:
    """SQLite's error of a file in words for people."""
    if isinstance(error, sqlite3.OperationalError):
        return SpyreCiError(
            f"the store of results cannot be used: {error}",
            where=path,
            remedy="check the folder's rights and disk, or try again when no other report is written",
        )
    return BadFileError(
        f"is no store of results: {error}",
        where=path,
        remedy="set `store.path` to another file, or move this one away",
    )


def check_version(connection: sqlite3.Connection, path: Path) -> bool:
    """Refuse a file that is no store of this version; whether it is one, and not empty.

    Raises:
        BadFileError: it is of another version, or another program's.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == VERSION:
        return True
    if not version and not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        return False
    what = (
        f"is a store of results of version {version}, not {VERSION}"
        if version
        else "is a database of another program, not a store of results"
    )
    raise BadFileError(what, where=path, remedy="set `store.path` to another file, or move this one away")


def connect(path: Path) -> sqlite3.Connection:
    """A connection whose transactions are begun by hand, for any thread."""
    return sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)


def _connect_to_read(path: Path) -> sqlite3.Connection:
    query = "mode=ro"
    # Where no file can be made beside it, SQLite must be told that nobody writes to it meanwhile.
    if not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists():
        query += "&immutable=1"
    uri = f"file:{quote(os.fspath(path))}?{query}"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)
