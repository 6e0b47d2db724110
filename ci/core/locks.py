"""Locks that the kernel lets go of when their process ends, however that ends (flock(2))."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import psutil
from filelock import FileLock, Timeout

from ci.core.errors import RunInUseError, SpyreCiError
from ci.core.operating_system import host_name
from ci.core.text import one_line

RUN_LOCK = "run.lock"
_SHOWN = 100
# What a file system says that has no locks; nobody is refused there.
_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS}


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
    try:
        held = FileLock(path, timeout=timeout_s).acquire()
    except Timeout as error:
        raise busy from error
    with held:
        yield


@contextmanager
def run_lock(run_dir: Path, *, alone: bool) -> Iterator[bool]:
    """Work in a run folder, with others or alone.

    Several processes may run shards of one folder at once, each with the lock in common; whoever resumes a
    run has it alone. The file says who they are, for people.

    Yields:
        Whether the lock is held; it is not where the file system has no locks.

    Raises:
        RunInUseError: others work in it and one of us must be alone; with their process ids and hosts.
    """
    run_dir.mkdir(parents=True, exist_ok=True)
    # Not through a link: its target would be truncated.
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(run_dir / RUN_LOCK, flags, 0o666), "a+b", buffering=0) as stream:
        held = _take(stream, run_dir, alone=alone)
        with contextlib.suppress(OSError):  # a full disk: the lock holds, its file only says whose it is
            if alone:
                stream.truncate(0)  # they have all ended
            stream.write(json.dumps({"pid": os.getpid(), "host": host_name()}).encode() + b"\n")
        yield held


def _take(stream: IO[bytes], run_dir: Path, *, alone: bool) -> bool:
    try:
        if take(stream, fcntl.LOCK_EX if alone else fcntl.LOCK_SH):
            return True
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return False
        raise
    time.sleep(0.05)  # the holder writes who it is just after it has the lock
    raise RunInUseError(
        f"is being run right now by {_holders(stream)}",
        where=run_dir,
        remedy="wait until that ends, or end it",
    )


def _holders(stream: IO[bytes]) -> str:
    stream.seek(0)
    named = []
    for line in stream.read(1 << 16).splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError, OverflowError):
            row = json.loads(line)
            pid, host = int(row["pid"]), str(row["host"])
            if host != host_name() or psutil.pid_exists(pid):
                named.append(f"process {pid} on {one_line(host, _SHOWN)}")
    return ", ".join(dict.fromkeys(named)) or "another process"
