"""The file behind the worker: its tables, its version, and what is said when it cannot be used."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from ci.core.errors import EXIT_INCOMPLETE, BadFileError, MissingInputError, SpyreCiError

BUSY_TIMEOUT_S = 30.0
VERSION = 1
# A start that was noted stays noted when the power goes.
SYNCHRONOUS = "FULL"
_ELSEWHERE = "set `state` to another folder, or move this file away: lanes then begin as if they never ran"
# A slot is a run of a lane at a time, taken once; it is open until an attempt told what was asked, or none
# is left. `again_at` is when its next attempt begins, NULL while one is on its way.
_TABLES = """
CREATE TABLE lanes (
    lane TEXT PRIMARY KEY,
    cadence TEXT,
    looked REAL,
    last_end REAL
) WITHOUT ROWID;
CREATE TABLE slots (
    lane TEXT NOT NULL,
    due INTEGER NOT NULL,
    why TEXT NOT NULL,
    taken_at REAL NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'ended', 'skipped')),
    again_at REAL,
    standing TEXT,
    ended_at REAL,
    PRIMARY KEY (lane, due)
) WITHOUT ROWID;
CREATE TABLE attempts (
    lane TEXT NOT NULL,
    due INTEGER NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    seed INTEGER NOT NULL,
    limit_s REAL NOT NULL,
    begun_at REAL NOT NULL,
    reference TEXT,
    standing TEXT NOT NULL,
    asked TEXT NOT NULL DEFAULT '',
    handed_back INTEGER NOT NULL DEFAULT 0,
    exit_code INTEGER,
    ended_at REAL,
    said TEXT NOT NULL DEFAULT '',
    url TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (lane, due, number),
    FOREIGN KEY (lane, due) REFERENCES slots ON DELETE CASCADE
) WITHOUT ROWID
"""


class StateAwayError(SpyreCiError):
    """The state cannot be used now: a full disk, or somebody else holds it; another time may do."""

    exit_code = EXIT_INCOMPLETE


class State:
    """The file as the worker has it open.

    Args:
        path: of the file, which is made where it is not there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: sqlite3.Connection | None = None

    @contextlib.contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it or nothing.

        Raises:
            BadFileError: the file is no state of lanes, or one of another version.
            StateAwayError: it cannot be written to now.
        """
        with self.look() as state:
            state.execute("BEGIN IMMEDIATE")
            yield state
            state.execute("COMMIT")

    @contextlib.contextmanager
    def look(self) -> Iterator[sqlite3.Connection]:
        """The same to read; nobody else writes.

        Raises:
            BadFileError: the file is no state of lanes, or one of another version.
            StateAwayError: it cannot be read now.
        """
        try:
            with _told(self._path):
                if self._open is None:
                    self._open = _made(self._path)
                yield self._open
        except BaseException:
            self.close()  # what was not committed is undone
            raise

    def close(self) -> None:
        """Let go of the file; it is opened again when it is needed."""
        if self._open is not None:
            self._open.close()
            self._open = None


def _made(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    state = _connect(path, "rwc")
    try:
        state.execute("PRAGMA journal_mode = WAL")
        state.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
        state.execute("PRAGMA foreign_keys = ON")
        state.execute("BEGIN IMMEDIATE")
        _prepare(state, path)
        state.execute("COMMIT")
    except BaseException:
        state.close()
        raise
    return state


@contextlib.contextmanager
def read_state(path: Path) -> Iterator[sqlite3.Connection]:
    """The state as it is at one moment; who reads waits for no worker.

    Raises:
        MissingInputError: no worker was ever there.
        BadFileError: the file is no state of lanes, or one of another version.
        StateAwayError: it cannot be read now.
    """
    if not path.is_file():
        raise MissingInputError(
            "there is no state of lanes yet",
            where=path,
            remedy="it is made by the first `spyre-ci lanes run`",
        )
    with _told(path), contextlib.closing(_connect(path, "ro")) as state:
        state.execute("BEGIN")
        _check(state, path)
        yield state


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"file:{quote(os.fspath(path))}?mode={mode}"
    state = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    state.row_factory = sqlite3.Row
    return state


def _prepare(state: sqlite3.Connection, path: Path) -> None:
    (version,) = state.execute("PRAGMA user_version").fetchone()
    (tables,) = state.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if version or tables:
        _check(state, path)
        return
    for statement in _TABLES.split(";"):
        state.execute(statement)
    state.execute(f"PRAGMA user_version = {VERSION}")


def _check(state: sqlite3.Connection, path: Path) -> None:
    (version,) = state.execute("PRAGMA user_version").fetchone()
    if version == 0:
        raise BadFileError(
            "is a database of another program, not a state of lanes", where=path, remedy=_ELSEWHERE
        )
    if version != VERSION:
        raise BadFileError(
            f"is a state of lanes of version {version}, not {VERSION}",
            where=path,
            remedy=f"use the spyre-ci that wrote it; or {_ELSEWHERE}",
        )


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """SQLite's errors in words for people."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StateAwayError(
            f"the state of lanes cannot be used: {error}",
            where=path,
            remedy="free space on its disk, or check the folder's rights and that it is on no network",
        ) from error
    except sqlite3.DatabaseError as error:
        raise BadFileError(f"is no state of lanes: {error}", where=path, remedy=_ELSEWHERE) from error
