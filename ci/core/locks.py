"""Locks that the kernel lets go of when their process ends, however that ends (flock(2))."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from filelock import FileLock, Timeout

from ci.core.errors import SpyreCiError


def take(file: int | IO[bytes], how: int = fcntl.LOCK_EX) -> bool:
    """Lock an open file, waiting for nobody; whether that was possible.

    Args:
        file: the file, or its descriptor; the lock is held until it is closed.
        how: LOCK_EX to have it alone, LOCK_SH in common with others, LOCK_UN to let go of it.

    Raises:
        OSError: its file system has no locks.
    """
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def alone(path: Path, busy: SpyreCiError, *, timeout_s: float = 0) -> Iterator[None]:
    """Be the only one of all processes with a lock's file, which stays.

    Args:
        path: of the file.
        busy: what is raised where somebody else has it.
        timeout_s: how long it is waited for.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, timeout=timeout_s)
    try:
        lock.acquire()
    except Timeout as error:
        raise busy from error
    try:
        yield
    finally:
        lock.release()
