"""Disk space of files and folders, and their removal in a way that nobody sees a part of one."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterable
from pathlib import Path

from ci.core.folders import make_removable
from ci.retention.rules import KeptError

# stat(2): st_blocks counts 512 bytes, whatever the file system's blocks are.
BLOCK = 512
PREFIX = ".spyre-ci-trash-"
# `bare-` is of an earlier format.
_TRASH = re.compile(re.escape(PREFIX) + "(bare-)?[0-9a-f]{32}")
_DEEPEST = 300
_MOUNTED = "something is mounted in it"
_MOUNTS = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")


def mount_points() -> list[str]:
    """List where something is mounted, binds of the same file system too; empty if the kernel does not say.

    Source: proc_pid_mountinfo(5), where blanks in names are octal.
    """
    try:
        rows = [line.split(" ") for line in os.fsdecode(_MOUNTS.read_bytes()).split("\n")]
    except OSError:
        return []
    return [_OCTAL.sub(lambda code: chr(int(code[1], 8)), row[4]) for row in rows if row[4:]]


def _is_mounted_in(path: Path) -> bool:
    real = path.parent.resolve() / path.name
    return any(Path(one).is_relative_to(real) for one in mount_points())


def measure(path: Path) -> tuple[int, str]:
    """Return the bytes on disk of a file or folder, and why it cannot be removed, empty if it can.

    Links are not followed, and a file with two names counts once.

    Raises:
        FileNotFoundError: it does not exist.
    """
    refused: list[OSError] = []
    top = path.lstat()
    infos = {(top.st_dev, top.st_ino): top}
    for folder, folders, files in os.walk(path, onerror=refused.append):
        if len(Path(folder).parts) > _DEEPEST:  # `rmtree` and `walk` call themselves for each level
            refused.append(OSError(errno.ENAMETOOLONG, "too many levels of folders"))
            break
        for name in (*folders, *files):
            try:
                info = os.lstat(Path(folder, name))
                infos[info.st_dev, info.st_ino] = info
            except OSError as error:
                refused.append(error)
    gone = (FileNotFoundError, NotADirectoryError)  # meanwhile, or a file from the start
    problems = [f"cannot be read: {error.strerror}" for error in refused if not isinstance(error, gone)][:1]
    if any(info.st_uid != os.getuid() for info in infos.values()):
        problems.append("contains files of another user")
    mounted = stat.S_ISDIR(top.st_mode) and _is_mounted_in(path)
    if mounted or any(info.st_dev != top.st_dev for info in infos.values()):
        problems.append(_MOUNTED)
    return sum(info.st_blocks * BLOCK for info in infos.values()), "; ".join(problems)


def discard(path: Path) -> None:
    """Remove a file or folder: rename it, then delete it, so that nobody sees a part of it.

    Raises:
        OSError: it cannot be renamed, and is unchanged, or not all of it can be deleted; what is left is
            trash, which the next prune deletes.
    """
    trash = path.with_name(PREFIX + uuid.uuid4().hex)
    path.rename(trash)
    delete(trash)


def delete(trash: Path) -> None:
    """Delete a file or folder and what it contains; folders that a test made read-only too.

    Raises:
        KeptError: something is mounted in it.
        OSError: not all of it can be deleted.
    """
    if trash.is_symlink() or not trash.is_dir():
        trash.unlink()
        return
    if _is_mounted_in(trash):
        raise KeptError(_MOUNTED)
    make_removable(trash)
    shutil.rmtree(trash)


def find_trash(folders: Iterable[Path]) -> list[Path]:
    """Find what interrupted prunes left in folders."""
    return [path for folder in folders for path in folder.glob(f"{PREFIX}*") if is_trash(path)]


def is_trash(path: Path) -> bool:
    """True if an interrupted prune of ours left a file or folder."""
    return bool(_TRASH.fullmatch(path.name)) and path.lstat().st_uid == os.getuid()
