"""The file behind the history: its tables, its versions, and what is said when it cannot be used.

Names of tests and files are stored as JSON writes them (without the quotes): for nearly all that is the
name itself, and names that are no valid UTF-8 come back exactly as they were.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ci.core.errors import BadFileError, MissingInputError, SpyreCiError

BUSY_TIMEOUT_S = 30.0
_RUNS = """
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    run_id INTEGER NOT NULL,
    run_attempt INTEGER NOT NULL,
    lane TEXT NOT NULL,
    device TEXT NOT NULL,
    stage INTEGER,
    percent REAL NOT NULL,
    pytorch_version TEXT NOT NULL,
    pytorch_sha TEXT NOT NULL,
    started_at REAL NOT NULL,
    UNIQUE (run_id, run_attempt, run)
);
CREATE TABLE tests (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE results (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    test INTEGER NOT NULL REFERENCES tests (number),
    verdict TEXT NOT NULL,
    seconds REAL NOT NULL,
    card TEXT,
    attempts INTEGER NOT NULL,
    PRIMARY KEY (test, run)
) WITHOUT ROWID;
CREATE INDEX results_of_run ON results (run);
CREATE TABLE setups (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    file TEXT NOT NULL,
    seconds REAL NOT NULL,
    PRIMARY KEY (file, run)
) WITHOUT ROWID;
CREATE INDEX setups_of_run ON setups (run)
"""
_IMPORTS = """
CREATE TABLE imported_tests (
    device TEXT NOT NULL, name TEXT NOT NULL, seconds REAL NOT NULL, spread REAL,
    PRIMARY KEY (device, name)
) WITHOUT ROWID;
CREATE TABLE imported_setups (
    device TEXT NOT NULL, file TEXT NOT NULL, seconds REAL NOT NULL,
    PRIMARY KEY (device, file)
) WITHOUT ROWID;
CREATE TABLE imported_classes (name TEXT PRIMARY KEY, seconds REAL NOT NULL) WITHOUT ROWID
"""
# An outcome that changes at the same commit of PyTorch may be a change of the back end; its commit tells.
_COMMIT = "ALTER TABLE runs ADD COLUMN checkout TEXT NOT NULL DEFAULT ''"
# What leads from each version to the next; a new store goes all the way.
_STEPS = (_RUNS, _IMPORTS, _COMMIT)
VERSION = len(_STEPS)
# What SQLite says of values, and not of its file.
_NOT_TAKEN = (sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError, sqlite3.DataError)
_ROWS = """
SELECT number, run, run_id, started_at,
    (SELECT count(*) FROM results WHERE results.run = runs.number)
    + (SELECT count(*) FROM setups WHERE setups.run = runs.number) + 1
FROM runs ORDER BY started_at, number
"""
_FORGET = "DELETE FROM runs WHERE number = ? AND run = ? AND run_id = ? AND started_at = ?"


@contextlib.contextmanager
def open_store(path: Path) -> Iterator[sqlite3.Connection]:
    """One transaction on the store, which is made where it is not there: all of it or nothing.

    Raises:
        BadFileError: the file is no history, or one of a newer version.
        SpyreCiError: the file cannot be used, or another process holds it for too long.
    """
    with _told(path), contextlib.closing(_connect(path)) as store:
        # Readers go on while a report is written.
        store.execute("PRAGMA journal_mode = WAL")
        store.execute("PRAGMA foreign_keys = ON")
        store.execute("BEGIN IMMEDIATE")
        _prepare(store, path)
        yield store
        store.execute("COMMIT")


@contextlib.contextmanager
def read_store(path: Path) -> Iterator[sqlite3.Connection]:
    """The store as it is at one moment, to read; it waits for no writer and needs no right to write.

    Raises:
        MissingInputError: there is no history yet.
        BadFileError: the file is no history, or one of a newer version.
        SpyreCiError: the file cannot be used.
    """
    must_exist(path)
    with _told(path), contextlib.closing(_connect(path, "ro")) as store:
        store.execute("BEGIN")
        if store.execute("PRAGMA user_version").fetchone()[0] == VERSION:
            yield store
            return
    with open_store(path) as store:  # of an older version: it is brought up to this one
        yield store


def must_exist(path: Path) -> None:
    """Refuse to read or thin out what was never written.

    Raises:
        MissingInputError: there is no history yet.
    """
    if not path.is_file():
        raise MissingInputError(
            "there is no history yet",
            where=path,
            remedy="it is made by the first `spyre-ci report` or `spyre-ci history import`",
        )


def _connect(path: Path, mode: str = "rwc") -> sqlite3.Connection:
    query = f"mode={mode}"
    # Where no file can be made beside it, SQLite must be told that nobody writes to it meanwhile.
    if (
        mode == "ro"
        and not os.access(path.parent, os.W_OK)
        and not path.with_name(f"{path.name}-wal").exists()
    ):
        query += "&immutable=1"
    uri = f"file:{quote(os.fspath(path))}?{query}"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """SQLite's errors in words for people."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise SpyreCiError(
            f"the history cannot be used: {error}",
            where=path,
            remedy="check the folder's rights and disk, or try again when no other report is written",
        ) from error
    except (*_NOT_TAKEN, OverflowError, UnicodeEncodeError) as error:
        raise BadFileError(
            f"cannot take what it is given, and is as it was: {error}",
            where=path,
            remedy="the history is whole; look at the run that is reported or imported",
        ) from error
    except sqlite3.DatabaseError as error:
        raise BadFileError(
            f"is not a history of runs: {error}",
            where=path,
            remedy="set `history.path` to another file, or move this one away",
        ) from error


def stored(name: str) -> str:
    """A name as the store keeps it."""
    return json.dumps(name)[1:-1]


def original(kept: str) -> str:
    """The name that `stored` was given."""
    return str(json.loads(f'"{kept}"')) if "\\" in kept else kept


def _prepare(store: sqlite3.Connection, path: Path) -> None:
    (version,) = store.execute("PRAGMA user_version").fetchone()
    if not 0 <= version <= VERSION:
        raise BadFileError(
            f"is a history of version {version}, not {VERSION}",
            where=path,
            remedy="use the spyre-ci that wrote it, or set `history.path` to another file",
        )
    if version == 0 and store.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise BadFileError(
            "is a database of another program, not a history of runs",
            where=path,
            remedy="set `history.path` to another file",
        )
    for step in _STEPS[version:]:
        for statement in step.split(";"):
            store.execute(statement)
    if version != VERSION:
        store.execute(f"PRAGMA user_version = {VERSION}")


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
