"""What a process id is worth: it names a process on one host, in one namespace, until that one ends."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.core.operating_system import PROC

# Of what stands behind the name in /proc/PID/stat, which may hold blanks and brackets (proc(5), field 22).
_STARTED = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """Where a process id means one process; empty where the system does not say.

    Attributes:
        host: the name it has there.
        namespace: of process ids, such as `pid:[4026531836]`.
        started: clock ticks from the host's start to the process's.
    """

    host: str
    namespace: str = ""
    started: str = ""


def identify_process(pid: int, proc: Path = PROC) -> ProcessIdentity:
    """Those of a process of this namespace.

    Args:
        pid: the process; one that is not there has not started.
        proc: where the kernel tells of processes.
    """
    try:
        namespace = str((proc / "self" / "ns" / "pid").readlink())
    except OSError:
        namespace = ""
    return ProcessIdentity(
        host=socket.gethostname(), namespace=namespace, started=_started(proc / str(pid) / "stat")
    )


def read_identity(row: Any) -> ProcessIdentity | None:
    """What a file says of one; None where it does not."""
    try:
        return ProcessIdentity(
            host=str(row["host"]), namespace=str(row["namespace"]), started=str(row["started"])
        )
    except (KeyError, TypeError):
        return None


def has_open(pid: int, path: Path, proc: Path = PROC) -> bool:
    """Whether a process has a file open; False where this user may not see that."""
    try:
        wanted = path.stat()
        descriptors = list((proc / str(pid) / "fd").iterdir())
    except OSError:
        return False
    for one in descriptors:
        with contextlib.suppress(OSError):
            if os.path.samestat(one.stat(), wanted):
                return True
    return False


def _started(stat: Path) -> str:
    try:
        words = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return words[_STARTED] if len(words) > _STARTED else ""
