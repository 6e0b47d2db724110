"""Other processes of this machine, as psutil sees them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psutil


def environments() -> Iterator[tuple[int, list[bytes]]]:
    """Each process with what it was started with, `NAME=value` each, the newest first.

    Those of other users, and of macOS's own programs, cannot be read and are left out.
    """
    for pid in sorted(psutil.pids(), reverse=True):
        with contextlib.suppress(psutil.Error, OSError):
            found = psutil.Process(pid).environ()
            yield pid, [f"{name}={value}".encode(errors="surrogateescape") for name, value in found.items()]


def below() -> list[int]:
    """The processes that this one has started, and those that these have."""
    with contextlib.suppress(psutil.Error, OSError):
        return [one.pid for one in psutil.Process().children(recursive=True)]
    return []


def children() -> list[tuple[int, list[str]]]:
    """The processes started by this one that still run, by id with their words."""
    found = []
    with contextlib.suppress(psutil.Error, OSError):
        for one in psutil.Process().children():
            with contextlib.suppress(psutil.Error, OSError):
                if one.status() != psutil.STATUS_ZOMBIE:
                    found.append((one.pid, one.cmdline() or [one.name()]))
    return found
