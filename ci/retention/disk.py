"""What a file or folder takes on the disk, and what in it forbids to remove it; no link is followed."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ci.retention.things import Shared

# stat(2): st_blocks counts 512 bytes, whatever the file system's blocks are.
BLOCK = 512
_MOUNTS = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A file or folder with all that is in it.

    Attributes:
        own: bytes on the disk of files without a name elsewhere; holes take none.
        shared: files with a name elsewhere.
        held: why it is not to be removed.
    """

    own: int
    shared: tuple[Shared, ...]
    held: tuple[str, ...]


@dataclass(slots=True)
class _Sum:
    own: int = 0
    links: dict[tuple[int, int], os.stat_result] = field(default_factory=dict)
    names: Counter[tuple[int, int]] = field(default_factory=Counter)

    def add(self, info: os.stat_result) -> None:
        if stat.S_ISDIR(info.st_mode) or info.st_nlink == 1:
            self.own += info.st_blocks * BLOCK
            return
        key = (info.st_dev, info.st_ino)
        self.links[key] = info
        self.names[key] += 1


def measure(path: Path, *, user: int, mounts: frozenset[str]) -> Measured:
    """What is at a path.

    Args:
        path: a file or folder; a link is only itself.
        user: whose files may go.
        mounts: what `mount_points` gave.

    Raises:
        OSError: it is not there.
    """
    total, held = _Sum(), dict[str, None]()
    top = path.lstat()
    for entry, info in _entries(path, top, held):
        total.add(info)
        if info.st_uid != user:
            held.setdefault("holds files of another user")
        if info.st_dev != top.st_dev:
            held.setdefault("something is mounted in it")
        if entry in mounts:
            held.setdefault("something is mounted in it")
    shared = []
    for key, info in total.links.items():
        size = info.st_blocks * BLOCK
        if total.names[key] >= info.st_nlink:
            total.own += size
        else:
            shared.append(Shared(key=key, inside=total.names[key], links=info.st_nlink, bytes=size))
    return Measured(own=total.own, shared=tuple(shared), held=tuple(held))


def _entries(path: Path, top: os.stat_result, held: dict[str, None]) -> Iterator[tuple[str, os.stat_result]]:
    """Each entry with what it is; what cannot be looked at is a reason to leave all of it."""
    yield os.fspath(path), top
    waiting = [os.fspath(path)] if stat.S_ISDIR(top.st_mode) else []
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    try:
                        info = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # somebody is at work in it; the run's lock tells
                    yield entry.path, info
                    # What is mounted there is not looked into.
                    if stat.S_ISDIR(info.st_mode) and info.st_dev == top.st_dev:
                        waiting.append(entry.path)
        except FileNotFoundError:
            continue
        except OSError as error:
            held.setdefault(f"cannot be looked into: {error.strerror or error}")


def mount_points(path: Path = _MOUNTS) -> frozenset[str]:
    """Where something is mounted, binds of the same file system too; none where the kernel does not say.

    Source: proc_pid_mountinfo(5); blanks in names are octal there.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return frozenset()
    fields = (line.split(" ") for line in lines)
    return frozenset(
        _OCTAL.sub(lambda found: chr(int(found[1], 8)), one[4])
        for one in fields
        if len(one) > 4  # noqa: PLR2004  # the fifth
    )
