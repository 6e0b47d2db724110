"""A command that runs for as long as it takes, tended as the first process of a container tends its own."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ci.core.interrupts import noted
from ci.core.process import hand_over, kill_group, reading, start_command

POLL_S = 0.1


def tend_command(
    argv: Sequence[str | Path],
    *,
    output: Callable[[bytes], object],
    env: Mapping[str, str],
    ending_s: float,
    orphans: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[int, list[int]]:
    """Run a command to its end; interrupts are handed on to it, so that it ends in its own way.

    Args:
        argv: program and arguments; never a shell line.
        output: takes what it prints, both outputs as one.
        env: the whole environment.
        ending_s: how long it may take to end once it was told to, in seconds; then its group is killed.
        orphans: whether processes that lost their parent come to this one, which buries them.
        clock: seconds, monotonic.

    Returns:
        Its exit code, below 0 a signal's number, and the interrupts that came.

    Raises:
        CommandError: it is not installed, or cannot be started.
    """
    with noted() as heard:
        process = start_command([str(word) for word in argv], cwd=None, env=env, joined=True)
        assert process.stdout is not None  # noqa: S101  # a pipe was asked for
        told, end = 0, math.inf
        try:
            with reading(process.stdout) as selector:
                while process.poll() is None:
                    hand_over(selector, output, POLL_S)
                    if len(heard) > told:
                        end = min(end, clock() + ending_s)
                        process.send_signal(heard[told])
                        told += 1
                    if clock() > end:
                        kill_group(process.pid)
                    if orphans:
                        bury_orphans(process.pid)
                while hand_over(selector, output, 0):
                    pass
        finally:
            kill_group(process.pid)
            process.wait()
        if orphans:
            bury_orphans(process.pid)
    return process.returncode, heard


def bury_orphans(child: int) -> None:
    """Take the exit codes of ended processes that were left to this one, all but that of `child`.

    Only the first process of a container has any, and containers are Linux.
    """
    if sys.platform == "linux":
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None or ended.si_pid == child:
                return
            os.waitpid(ended.si_pid, 0)
