"""What this process may use of the machine: in a container less than the machine has."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import psutil

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
# Version 1 says this, rounded to pages, where there is no limit.
_NO_LIMIT = 1 << 60


def available_cores() -> int:
    """CPU cores this process may use, which in a container are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def groups_of(membership: str, root: Path = ROOT) -> list[Path]:
    """The folders of the control groups a process is in and of those around them, each once (cgroups(7)).

    Args:
        membership: what `/proc/PID/cgroup` says.
        root: where control groups are mounted; a container sees its own group there.
    """
    found: dict[Path, None] = {root: None, root / "memory": None, root / "cpu": None}
    for line in membership.splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        inner = PurePosixPath(path.lstrip("/"))
        for below in [inner, *inner.parents]:
            found |= {root / name / below: None for name in [*controllers.split(","), controllers]}
    return list(found)


def core_quota(groups: Iterable[Path]) -> float:
    """CPU cores the control groups leave; infinite where they set no limit."""
    found = math.inf
    for group in groups:
        words = _words(group / "cpu.max") or [
            *_words(group / "cpu.cfs_quota_us"),
            *_words(group / "cpu.cfs_period_us"),
        ]
        numbers = [int(word) for word in words if word.lstrip("-").isdecimal()]
        if len(numbers) == 2 and min(numbers) > 0:  # noqa: PLR2004  # quota and period
            found = min(found, numbers[0] / numbers[1])
    return found


def memory_limit(groups: Iterable[Path]) -> float:
    """Bytes of memory the control groups leave; infinite where they set no limit."""
    limits = [
        int(word)
        for group in groups
        for name in ("memory.max", "memory.limit_in_bytes")
        for word in _words(group / name)
        if word.isdecimal() and int(word) < _NO_LIMIT
    ]
    return min(limits, default=math.inf)


def compile_jobs(memory_per_job: float, *, root: Path = ROOT, membership: Path = MEMBERSHIP) -> int:
    """How many compilers fit side by side, by cores, by the group's CPU quota and by its memory; at least 1.

    Args:
        memory_per_job: bytes one of them is given.
        root: where control groups are mounted.
        membership: the file that says which this process is in.
    """
    groups = groups_of(_text(membership), root)
    memory = min(memory_limit(groups), psutil.virtual_memory().total)
    fitting = min(available_cores(), core_quota(groups), memory / memory_per_job)
    return max(1, int(fitting))


def _words(path: Path) -> list[str]:
    return _text(path).split()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
