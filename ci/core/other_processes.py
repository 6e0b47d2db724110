"""Other processes: which one an id means, what it holds, and whether it outlives its parent."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ci.core import operating_system
from ci.core.operating_system import PROC

# Of what stands behind the name in /proc/PID/stat, which may hold blanks and brackets (proc(5), field 22).
_STARTED = 19
# linux/prctl.h
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.5


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
    """The identity of a process of this namespace.

    Args:
        pid: the process; one that is not found has not started.
        proc: where the kernel tells of processes.
    """
    namespace, words = "", list[str]()
    with contextlib.suppress(OSError):
        namespace = str((proc / "self" / "ns" / "pid").readlink())
    with contextlib.suppress(OSError):
        stat = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        words = stat.rpartition(")")[2].split()
    started = words[_STARTED] if len(words) > _STARTED else ""
    return ProcessIdentity(host=socket.gethostname(), namespace=namespace, started=started)


def read_identity(row: Any) -> ProcessIdentity | None:
    """The identity that a file tells; None where it tells none."""
    try:
        return ProcessIdentity(**{key: str(row[key]) for key in ("host", "namespace", "started")})
    except (KeyError, TypeError):
        return None


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


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """End this process when its parent ends: by the kernel on Linux, elsewhere by a thread that looks.

    The thread cannot look while something else holds the interpreter.

    Args:
        parent: the parent's process id as the parent knows it.
        number: the signal to be ended with; SIGTERM where there are processes to take along.
    """
    if not operating_system.is_linux():
        words = (parent, number)
        threading.Thread(target=watch_parent, args=words, name="spyre-ci-parent", daemon=True).start()
        return
    operating_system.prctl(_PR_SET_PDEATHSIG, int(number))
    if os.getppid() != parent:  # it went before the call
        os._exit(1)


def watch_parent(parent: int, number: int) -> None:
    """Wait until this process's parent is another one than `parent`, then send it the signal."""
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    os.kill(os.getpid(), number)


def adopt_orphans() -> None:
    """Become the parent of what processes below this one leave behind (Linux; elsewhere init is)."""
    operating_system.prctl(_PR_SET_CHILD_SUBREAPER, 1)
