"""Disk space of files and folders, and their removal in a way that nobody sees a part of one."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

# stat(2): st_blocks counts 512 bytes, whatever the file system's blocks are.
BLOCK = 512
PREFIX = ".spyre-ci-trash-"


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
        for name in (*folders, *files):
            with suppress(FileNotFoundError):
                info = os.lstat(Path(folder, name))
                infos[info.st_dev, info.st_ino] = info
    gone = (FileNotFoundError, NotADirectoryError)  # meanwhile, or a file from the start
    problems = [f"cannot be read: {error.strerror}" for error in refused if not isinstance(error, gone)]
    if any(info.st_uid != os.getuid() for info in infos.values()):
        problems.append("contains files of another user")
    if any(info.st_dev != top.st_dev for info in infos.values()):
        problems.append("contains a mount point")
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
    """Delete a file or folder and what it contains; folders that a test made read-only too."""
    if trash.is_symlink() or not trash.is_dir():
        trash.unlink()
        return
    trash.chmod(0o700)
    for folder, folders, _ in os.walk(trash):
        for path in (Path(folder, name) for name in folders):
            if not path.is_symlink():
                path.chmod(0o700)
    shutil.rmtree(trash)


def find_trash(folders: Iterable[Path]) -> list[Path]:
    """Find what interrupted prunes left in folders."""
    name = PREFIX + "[0-9a-f]" * 32
    return [path for folder in folders for path in folder.glob(name) if path.lstat().st_uid == os.getuid()]
