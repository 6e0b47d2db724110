"""How many processes the kernel has killed for want of memory, as control groups count it.

A container sees its own group at the root of what is mounted; elsewhere `/proc/self/cgroup` says which group
a process is in (`man 7 cgroups`; version 1 counts in `memory.oom_control`, version 2 in `memory.events`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def event_files(membership: str, root: Path = ROOT) -> list[Path]:
    """The files that count kills of the groups a process is in, whether they are there or not.

    Args:
        membership: what `/proc/PID/cgroup` says.
        root: where control groups are mounted.
    """
    found = {root / "memory.events": None, root / "memory" / "memory.oom_control": None}
    for line in membership.splitlines():
        number, controllers, path = (*line.split(":", 2), "", "")[:3]
        inner = PurePosixPath(path.lstrip("/"))
        if number == "0":
            found[root / inner / "memory.events"] = None
        elif "memory" in controllers.split(","):
            found[root / "memory" / inner / "memory.oom_control"] = None
    return list(found)


def count_kills(files: Iterable[Path]) -> int:
    """The kills all of them count; a file that is not there counts none."""
    total = 0
    for path in files:
        try:
            words = path.read_text(encoding="ascii").split()
        except (OSError, UnicodeDecodeError):
            continue
        if "oom_kill" in words[:-1]:
            total += int(words[words.index("oom_kill") + 1])
    return total


def oom_kills() -> int:
    """How many processes of this control group the kernel has killed for want of memory."""
    try:
        membership = MEMBERSHIP.read_text(encoding="utf-8", errors="replace")
    except OSError:
        membership = ""
    return count_kills(event_files(membership))
