"""Processes that a test started and left: found by a mark in their environment, or below their worker.

A process group ends what stays in it; a daemon makes a group and a session of its own and its parent is
gone, but the environment it was started with stays readable (in /proc, or where there is none by psutil).
Jenkins ends a build's processes the same way, by its BUILD_ID.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ci.core.operating_system import PROC, has_proc
from ci.core.processes import below, environments

VARIABLE = "SPYRE_CI_MARK"
# What a driver holds does not go at once, and may never.
KILL_S = 2.0
_POLL_S = 0.02
# One look may miss what forks and ends meanwhile; so many in a row hardly do.
_EMPTY = 8


def newest_process(proc: Path = PROC) -> str:
    """The id that the kernel gave out last; the same text twice: no process began in between.

    Empty where the kernel does not say.
    """
    try:
        return (proc / "loadavg").read_text(encoding="ascii").split()[-1]
    except (OSError, IndexError):
        return ""


def find_strays(
    mark: str, *, spare: Collection[int], variable: str = VARIABLE, proc: Path = PROC
) -> list[int]:
    """The process ids that carry `mark` in a variable, besides `spare`."""
    return sorted(_strays(mark, spare, proc, variable))


def find_strays_of_run(run_dir: Path, *, proc: Path = PROC) -> list[int]:
    """The process ids that work for, or were started by, whoever ran the folder's shards before us."""
    return sorted(_strays_of_run(run_dir, proc))


def end_strays(mark: str, *, spare: Collection[int] = (), variable: str = VARIABLE) -> None:
    """Kill every process that carries `mark` in a variable, besides `spare`."""
    kill_all(lambda: _strays(mark, spare, PROC, variable))


def end_orphans(*, spare: Collection[int]) -> None:
    """Kill what runs below this process, besides `spare`: what it adopted, whatever environment that has."""
    kill_all(lambda: _orphans(spare))


def _orphans(spare: Collection[int]) -> Iterator[int]:
    for pid in below():
        if pid not in spare and not _reaped(pid):
            yield pid


def _reaped(pid: int) -> bool:
    """Whether a process of ours has ended; it is gone then. Those of others are for them to see to."""
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return False


def end_strays_of_run(run_dir: Path) -> Killed:
    """Kill every process that `find_strays_of_run` finds."""
    return kill_all(lambda: _strays_of_run(run_dir, PROC))


def _strays(mark: str, spare: Collection[int], proc: Path, variable: str) -> Iterator[int]:
    wanted = f"{variable}={mark}".encode()
    return (pid for pid, environ in _environs(proc) if wanted in environ and pid not in spare)


def _strays_of_run(run_dir: Path, proc: Path) -> Iterator[int]:
    wanted = re.compile(rb"%b=\d+:%b/(?:control/)?journal/" % (VARIABLE.encode(), re.escape(bytes(run_dir))))
    return (pid for pid, environ in _environs(proc) if any(map(wanted.match, environ)))


def _environs(proc: Path) -> Iterator[tuple[int, list[bytes]]]:
    """Each process with what it was started with; the newest first, for these may be gone in a moment."""
    if not has_proc(proc):
        yield from environments()
        return
    for pid in sorted((int(folder.name) for folder in proc.glob("[0-9]*")), reverse=True):
        # Another user's process cannot be read, and any may end meanwhile.
        with contextlib.suppress(OSError):
            yield pid, (proc / str(pid) / "environ").read_bytes().split(b"\0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """What killing came to.

    Attributes:
        count: how many processes were killed, or ended by themselves meanwhile.
        left: process ids that are still there: stuck in a driver, another user's, or made faster than killed.
    """

    count: int
    left: tuple[int, ...] = ()


def kill_all(
    find: Callable[[], Iterable[int]],
    *,
    wait_s: float = KILL_S,
    kill: Callable[[int, int], None] = os.kill,
    newest: Callable[[], str] = newest_process,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Killed:
    """Kill what is found, as it is found, until nothing more is: a process may fork while it is looked for.

    Args:
        find: gives the process ids.
        wait_s: after so many seconds nothing is waited for any more.
        kill: as `os.kill`.
        newest: see `newest_process`: a look during which no process began has missed none. Where the kernel
            does not say, several looks in a row have to be in vain.
        clock: seconds that never go back.
        sleep: waits for so many seconds.
    """
    seen: set[int] = set()
    deadline = clock() + wait_s
    empty = 0
    while True:
        found = set()
        before = newest()
        for pid in find():
            found.add(pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(pid, signal.SIGKILL)
        empty = 0 if found else empty + 1
        if empty == _EMPTY or (not found and before and newest() == before):
            return Killed(count=len(seen))
        if found and clock() >= deadline:
            return Killed(count=len(seen - found), left=tuple(sorted(found)))
        if found <= seen:  # what was killed takes a moment to go; what is new is to have none to fork again
            sleep(_POLL_S)
        seen |= found
