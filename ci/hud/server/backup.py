"""A copy of the store while it is used, and a copy put in its place; both checked before they count."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from ci.core.errors import BadFileError, MissingInputError, UsageError
from ci.store.replicate import mark_restored
from ci.store.schema import MIGRATIONS
from ci.store.store import InUse

PAGES = 4096
BESIDE = ("", "-wal", "-shm")


def back_up(store: Path, to: Path) -> int:
    """Copy a store that may be in use to a file, whole or not at all.

    Args:
        store: its file.
        to: the copy; one that is there is replaced once the new one is checked.

    Returns:
        How many jobs are in the copy.

    Raises:
        MissingInputError: there is no store.
        BadFileError: the store is broken; `to` is as it was.
        UsageError: `to` is the store.
    """
    if not store.is_file():
        raise MissingInputError("there is no HUD store yet", where=store, remedy="report a run first")
    if to.exists() and to.samefile(store):
        raise UsageError("the backup would replace the store itself", where=to, remedy="name another file")
    with _made_beside(to) as made:
        _copy(store, made)
        jobs = check_store(
            made, named=store, remedy="put an older backup in place: `spyre-ci hud restore FILE`"
        )
        _replace(made, to)
    return jobs


def restore(backup: Path, store: Path, *, stamp: str, copied: bool = False) -> tuple[int, Path | None]:
    """Put a backup in the store's place; the store that was there is kept beside it.

    Args:
        backup: made by `back_up`.
        store: the store's file.
        stamp: part of the name under which the replaced store is kept.
        copied: whether its jobs are copied to ClickHouse, which then has to be taken back as well, by
            whoever opens the store next.

    Returns:
        How many jobs are in the store now, and where the one before is, if there was one.

    Raises:
        MissingInputError: there is no such backup.
        BadFileError: the backup is broken or no store; the store is as it was.
        RunInUseError: the store is in use.
    """
    if not backup.is_file():
        raise MissingInputError("there is no such backup", where=backup, remedy="check the path")
    if store.exists() and backup.samefile(store):
        raise UsageError("the backup is the store itself", where=backup, remedy="name another file")
    store.parent.mkdir(parents=True, exist_ok=True)
    with InUse(store, alone=True), _made_beside(store) as made:
        _copy(backup, made)
        jobs = check_store(made, named=backup, remedy="take another backup; the store is as it was")
        if copied:
            _mark(made)
        kept = _set_aside(store, stamp)
        _replace(made, store)
    return jobs, kept


def check_store(path: Path, *, named: Path, remedy: str) -> int:
    """Check every page of a store; how many jobs it holds.

    Args:
        path: the file.
        named: the file errors name.
        remedy: what errors advise.

    Raises:
        BadFileError: it is broken, no HUD store, or of a newer version.
    """
    try:
        with closing(_open(path)) as connection:
            said = connection.execute("PRAGMA integrity_check").fetchone()[0]
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            jobs = int(connection.execute("SELECT count(*) FROM crcr_workflow_job").fetchone()[0])
    except (sqlite3.DatabaseError, TypeError) as error:
        raise BadFileError(f"is no whole HUD store: {error}", where=named, remedy=remedy) from error
    if said != "ok":
        raise BadFileError(f"is no whole HUD store: {str(said)[:200]}", where=named, remedy=remedy)
    if not 0 < version <= len(MIGRATIONS):
        raise BadFileError(f"is a HUD store of schema {version}", where=named, remedy="update spyre-ci")
    return jobs


def _copy(source: Path, to: Path) -> None:
    try:
        with closing(_open(source)) as here, closing(sqlite3.connect(to)) as there:
            here.backup(there, pages=PAGES)
    except sqlite3.DatabaseError as error:
        raise BadFileError(f"cannot be copied: {error}", where=source, remedy="check the file") from error


def _mark(made: Path) -> None:
    with closing(sqlite3.connect(made)) as connection, connection:
        # All in the one file that is put in place.
        connection.execute("PRAGMA journal_mode=DELETE")
        mark_restored(connection)


def _open(path: Path) -> sqlite3.Connection:
    # Read-only, and a file that is not there is not made.
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=15)


@contextlib.contextmanager
def _made_beside(path: Path) -> Iterator[Path]:
    made = path.with_name(f".{path.name}.{os.getpid()}.new")
    os.close(os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        yield made
    finally:
        for end in ("", "-wal", "-shm", "-journal"):
            made.with_name(made.name + end).unlink(missing_ok=True)


def _replace(made: Path, path: Path) -> None:
    with made.open("rb") as file:
        os.fsync(file.fileno())
    made.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _set_aside(store: Path, stamp: str) -> Path | None:
    # With its log: what was written last may stand there alone.
    if not store.exists():
        return None
    kept = store.with_name(f"{store.name}.replaced-{stamp}")
    for end in BESIDE:
        old = store.with_name(store.name + end)
        if old.exists():
            old.rename(kept.with_name(kept.name + end))
    return kept
