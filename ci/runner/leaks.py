"""What a test leaves behind in its process: processes it started that still run, threads that keep it alive.

Nothing of it fails a test. It is told, for what is left behind disturbs the tests that follow.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ci.core.operating_system import PROC, has_proc
from ci.core.processes import children

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


class Leaks:
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
