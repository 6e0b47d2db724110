"""Processes that a test started and left: found by a mark in their environment, or below their worker.

A process group ends what stays in it; a daemon makes a group and a session of its own and its parent is
gone, but the environment it was started with stays readable (in /proc, or where there is none by psutil).
Jenkins ends a build's processes the same way, by its BUILD_ID.

What a single test leaves behind, threads that keep its process alive among it, fails no test. It is told, for
it disturbs the tests that follow.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ci.core.operating_system import PROC, has_proc
from ci.core.other_processes import below, children, environments

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


def find_orphans(
    mark: str, *, spare: Collection[int], variable: str = VARIABLE, proc: Path = PROC
) -> list[int]:
    """The process ids that carry `mark` in a variable, besides `spare`."""
    return sorted(_marked(mark, variable, spare, proc))


def find_orphans_of_run(run_dir: Path, *, proc: Path = PROC) -> list[int]:
    """The process ids that work for, or were started by, whoever ran the folder's shards before us."""
    return sorted(_of_run(run_dir, proc))


def end_orphans(
    mark: str, *, spare: Collection[int] = (), variable: str = VARIABLE, adopted: bool = False
) -> None:
    """Kill every process that carries `mark` in a variable, besides `spare`.

    Args:
        mark: what they carry.
        spare: process ids that are left alone.
        variable: its name.
        adopted: whether what runs below this process goes as well, whatever environment that has.
    """

    def found() -> Iterator[int]:
        yield from _marked(mark, variable, spare, PROC)
        if adopted:
            yield from (pid for pid in below() if pid not in spare and not _reaped(pid))

    kill_all(found)


def end_orphans_of_run(run_dir: Path) -> Killed:
    """Kill every process that `find_orphans_of_run` finds."""
    return kill_all(lambda: _of_run(run_dir, PROC))


def _reaped(pid: int) -> bool:
    """Whether a process of ours has ended; it is gone then. Those of others are for them to see to."""
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return False


def _marked(mark: str, variable: str, spare: Collection[int], proc: Path) -> Iterator[int]:
    wanted = f"{variable}={mark}".encode()
    return (pid for pid, environ in _environs(proc) if wanted in environ and pid not in spare)


def _of_run(run_dir: Path, proc: Path) -> Iterator[int]:
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


_SHOWN = 3
_NAME_LIMIT = 60
# What libraries start once for all and end with the process: whoever came first is not to blame for it.
_EXPECTED = (
    "multiprocessing.resource_tracker",
    "multiprocessing.forkserver",
    "torch_shm_manager",
    "torch/_inductor/compile_worker",
)
_EXPECTED_THREADS = "ThreadPoolExecutor-"


class LeakedResources:
    """Looks after each test of one process at what is new."""

    def __init__(
        self,
        *,
        processes: Callable[[], dict[int, str]] | None = None,
        threads: Callable[[], Iterable[threading.Thread]] = threading.enumerate,
    ) -> None:
        """Look at what there is already.

        Args:
            processes: what runs below this process, by process id with its name.
            threads: the threads of this process.
        """
        self._processes, self._threads = processes or running_children, threads
        self._known: set[int] = set(self._processes())
        self._known_threads = {one.ident for one in self._alive()}

    def look(self) -> str:
        """What was left behind since the last call; empty where nothing was."""
        found = self._processes()
        new = [f"process {pid} ({name})" for pid, name in found.items() if pid not in self._known]
        self._known = set(found)
        alive = list(self._alive())
        if len(alive) > 1 or len(self._known_threads) > 1:  # hardly ever, and asked after every test
            new += [
                f"thread {one.name[:_NAME_LIMIT]!r}" for one in alive if one.ident not in self._known_threads
            ]
            self._known_threads = {one.ident for one in alive}
        more = f" and {len(new) - _SHOWN} more" if len(new) > _SHOWN else ""
        return ", ".join(new[:_SHOWN]) + more

    def _alive(self) -> Iterator[threading.Thread]:
        """The threads that keep a process from ending; a daemon does not."""
        return (
            one for one in self._threads() if not one.daemon and not one.name.startswith(_EXPECTED_THREADS)
        )


def running_children(proc: Path = PROC) -> dict[int, str]:
    """The processes started by this one that still run, by id with their name; none where nothing tells.

    A test may have used up what looking takes, such as open files; that must not cost it its outcome.
    """
    found: dict[int, str] = {}
    with contextlib.suppress(OSError):
        if not _has_children():
            return found
        if not has_proc(proc):
            return {pid: name for pid, words in children() if (name := _known_as(words))}
        for task in proc.glob("self/task/*/children"):
            for word in task.read_text(encoding="ascii").split():
                if (name := _name(proc / word)) is not None:
                    found[int(word)] = name
    return found


def _has_children() -> bool:
    """Whether there may be any: asked after every test, so one call of the system has to do.

    Python on macOS has that call from 3.13 on; before it, looking takes some milliseconds.
    """
    if not hasattr(os, "waitid"):
        return True
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _name(folder: Path) -> str | None:
    """What a process is called; None where it has ended, or is none of the test's."""
    try:
        stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        state = stat.rpartition(")")[2].split()[0]
        words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except (OSError, IndexError):
        return None
    # One that is just becoming another program has no words yet.
    return None if state == "Z" else _known_as(words, stat.rpartition(")")[0].partition("(")[2])


def _known_as(words: Iterable[str], otherwise: str = "") -> str | None:
    """What people call a process with these words; None where it is none of the test's."""
    said = list(filter(None, words))
    if any(known in word for word in said for known in _EXPECTED):
        return None
    return (" ".join(said) or otherwise)[:_NAME_LIMIT]
