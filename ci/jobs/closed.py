"""A process whose memory and environment other processes of its user cannot read."""

from __future__ import annotations

from ci.core.operating_system import prctl

# linux/prctl.h
_PR_SET_DUMPABLE = 4


def close_process(*, closed: bool = True) -> bool:
    """Have procfs and ptrace refuse this process to its own user; what it starts anew is open again.

    Source: the manual's PR_SET_DUMPABLE(2const) and proc(5).

    Args:
        closed: False opens it.

    Returns:
        Whether the system did so; only Linux can.
    """
    return prctl(_PR_SET_DUMPABLE, int(not closed))
