"""Processes that a test started and left: found by a mark in their environment, wherever they went.

A process group ends what stays in it; a daemon makes a group and a session of its own and its parent is
gone, but the environment it was started with stays readable (Linux). Jenkins ends a build's processes the
same way, by its BUILD_ID.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Collection
from pathlib import Path

VARIABLE = "SPYRE_CI_MARK"
_PROC = Path("/proc")


def find_strays(mark: str, *, spare: Collection[int], proc: Path = _PROC) -> list[int]:
    """The process ids that carry `mark`, besides `spare`; none where there is no /proc."""
    wanted = f"{VARIABLE}={mark}".encode()
    found = []
    for folder in proc.glob("[0-9]*"):
        # Another user's process cannot be read, and any may end meanwhile.
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return [pid for pid in found if pid not in spare]


def find_strays_of_run(run_dir: Path, *, proc: Path = _PROC) -> list[int]:
    """The process ids that work for, or were started by, whoever ran the folder's shards before us."""
    wanted = re.compile(rb"%b=\d+:%b/(?:control/)?journal/" % (VARIABLE.encode(), re.escape(bytes(run_dir))))
    found = []
    for folder in proc.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(wanted.match(one) for one in (folder / "environ").read_bytes().split(b"\0")):
                found.append(int(folder.name))
    return found


def end_strays(mark: str, *, spare: Collection[int] = ()) -> None:
    """Kill every process that carries `mark`, besides `spare`."""
    for pid in find_strays(mark, spare=spare):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
