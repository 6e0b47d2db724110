"""Locks that the kernel lets go of when their process ends, however that ends (flock(2))."""

from __future__ import annotations

import fcntl
from typing import IO


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
