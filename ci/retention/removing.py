"""Removing what was decided on, with a last look under the lock of whoever could be at work in it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from ci.core.errors import RunInUseError
from ci.core.locks import RUN_LOCK, run_lock, take
from ci.core.shared_folders import lock_of as lock_of_build
from ci.retention.caches import build_of, last_used, lock_of, mark_of, tree_last_used
from ci.retention.folders import Look, look_again
from ci.retention.things import DAY_S, Thing
from ci.retention.trash import discard


class KeptError(Exception):
    """Something that was to go and stays, and why; nobody's fault."""


def remove_folder(thing: Thing, look: Look, *, now: float) -> None:
    """Remove the folder of a run, while nobody can begin to work in it.

    Args:
        thing: the folder.
        look: what it was found with.
        now: seconds since the epoch.

    Raises:
        KeptError: it is gone, somebody works in it, or it is not what it was.
        NotRemovedError: it cannot be removed, or not all of it.
    """
    path = _still_there(thing)
    try:
        with run_lock(path, alone=True) as alone:
            if not alone and (thing.at is None or now - thing.at < DAY_S):
                raise KeptError("is young, and its file system has no locks that tell who works in it")
            if why := look_again(thing, look):
                raise KeptError(why)
            _discard(path)
    except RunInUseError as error:
        raise KeptError(f"in use: {error.what}") from error


def is_in_use(path: Path) -> bool:
    """Whether somebody works in a run's folder now; nothing is written, and nobody waits for the answer."""
    try:
        descriptor = os.open(path / RUN_LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return not _lock(descriptor)
    finally:
        os.close(descriptor)


def remove_file(thing: Thing) -> None:
    """Remove something of a cache, unless it was used since it was looked at.

    Raises:
        KeptError: it is gone, in use, or was used meanwhile.
        NotRemovedError: it cannot be removed, or not all of it.
    """
    path = _still_there(thing)
    build = build_of(path)
    with contextlib.nullcontext(True) if build is None else _held(lock_of_build(build)) as held:
        if not held:
            raise KeptError("a bisect makes or uses it")
        if last_used(path) != thing.at:
            raise KeptError("was used meanwhile")
        _discard(path)


def remove_tree(thing: Thing) -> None:
    """Remove a checked out commit, while nobody can begin to use it; its repository forgets it by itself.

    Raises:
        KeptError: it is gone, in use, or was used meanwhile.
        NotRemovedError: it cannot be removed, or not all of it.
    """
    path = _still_there(thing)
    with _held(lock_of(path)) as held:
        if not held:
            raise KeptError("its repository is in use")
        if tree_last_used(path) != thing.at:
            raise KeptError("was used meanwhile")
        # First: a tree without its mark is made anew, whatever becomes of this.
        mark_of(path).unlink(missing_ok=True)
        _discard(path)


def _still_there(thing: Thing) -> Path:
    path = Path(thing.path)
    if not os.path.lexists(path):
        raise KeptError("is gone already")
    if path.is_symlink():
        raise KeptError("is a link now, and none is followed")
    return path


def _discard(path: Path) -> None:
    try:
        discard(path)
    except FileNotFoundError as error:
        raise KeptError("is gone already") from error


@contextlib.contextmanager
def _held(path: Path) -> Iterator[bool]:
    """Hold a lock file alone, if nobody else has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        yield _lock(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        return take(descriptor)
    except OSError:  # a file system without locks
        return True
