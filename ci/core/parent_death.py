"""A process that does not outlive the one that started it, and one that outlives those below it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

from ci.core import operating_system

# linux/prctl.h
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
POLL_S = 0.5


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


def adopt_orphans() -> None:
    """Become the parent of what processes below this one leave behind (Linux; elsewhere init is)."""
    operating_system.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def watch_parent(
    parent: int,
    number: int,
    *,
    now: Callable[[], int] = os.getppid,
    sleep: Callable[[float], object] = time.sleep,
    kill: Callable[[int, int], object] = os.kill,
) -> None:
    """Wait until this process's parent is another one, then send it the signal.

    Args:
        parent: the process id of the parent it began with.
        number: the signal.
        now: gives the parent's process id.
        sleep: waits for so many seconds.
        kill: as `os.kill`.
    """
    while now() == parent:
        sleep(POLL_S)
    kill(os.getpid(), number)
