"""Files of the checkout: as they are before anything is decided, and written as it was decided.

All files are written or none, and none that changed since it was looked at.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.core.errors import UsageError
from ci.init.checkout import MOST_BYTES
from test_selection.files import atomic_writer

NEW_MODE = 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is at a path.

    Attributes:
        text: with every end of line as one character; None where there is no text.
        data: its bytes; None where there is no file.
        newline: what its lines end with.
        mode: its permission bits.
        odd: why nothing is written there, in a few words; empty where it is a text, or nothing.
    """

    text: str | None = None
    data: bytes | None = None
    newline: str = "\n"
    mode: int = NEW_MODE
    odd: str = ""

    def encoded(self, text: str) -> bytes:
        """A text as this file's: with its ends of lines."""
        return text.replace("\n", self.newline).encode()


def look(folder: Path, path: str) -> Seen:
    """Look at a path below a folder; no link on the way is followed.

    Raises:
        OSError: a plain file that cannot be read.
    """
    at, *below = path.split("/")
    here = folder / at
    for part in below:
        if os.path.lexists(here) and (here.is_symlink() or not here.is_dir()):
            what = "a link" if here.is_symlink() else "no folder"
            return Seen(odd=f"{here.relative_to(folder)} is {what}")
        here /= part
    try:
        found = here.lstat()
    except FileNotFoundError:
        return Seen()
    if stat.S_ISLNK(found.st_mode):
        return Seen(odd="it is a link")
    if not stat.S_ISREG(found.st_mode):
        return Seen(odd="it is a folder" if stat.S_ISDIR(found.st_mode) else "it is no plain file")
    if found.st_size > MOST_BYTES:
        return Seen(odd=f"it has {found.st_size:,} bytes")
    return of_bytes(here.read_bytes(), stat.S_IMODE(found.st_mode))


def of_bytes(data: bytes, mode: int = NEW_MODE) -> Seen:
    """What a file of these bytes is; pure."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return Seen(data=data, mode=mode, odd="it is not UTF-8")
    if "\0" in text:  # Git takes it for binary, and merges none
        return Seen(data=data, mode=mode, odd="it holds a zero byte")
    ends = text.count("\r\n")
    # Mixed ends stay as they are: whose lines would be changed, nobody asked for it.
    if ends and ends == text.count("\n") == text.count("\r"):
        return Seen(text=text.replace("\r\n", "\n"), data=data, newline="\r\n", mode=mode)
    return Seen(text=text, data=data, mode=mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """A file that is to be written.

    Attributes:
        path: in the checkout.
        seen: what was there when it was decided.
        text: what is to be there.
    """

    path: str
    seen: Seen
    text: str


def write_all(folder: Path, files: Sequence[Writing]) -> None:
    """Write files, each atomically; where one cannot be written, those before it are put back.

    Args:
        folder: of the checkout.
        files: in the order they take their places; the notes of what was written are the last.

    Raises:
        UsageError: a file changed since it was looked at.
        OSError: one cannot be written; nothing is then.
    """
    made = [folder / one.path for one in files]
    missing = _missing_folders(folder, made)
    try:
        for one in files:
            _refuse_changed(folder, one)
        _replace(files, made)
    except BaseException:
        for one, path in zip(files, made, strict=True):
            with contextlib.suppress(OSError):
                _put_back(one, path)
        for empty in reversed(missing):
            with contextlib.suppress(OSError):
                empty.rmdir()
        raise


def _replace(files: Sequence[Writing], made: Sequence[Path]) -> None:
    """Write each beside its place, then move all there: a disk that is full is met before the first moves."""
    with contextlib.ExitStack() as stack:
        # Left in the reverse of this order, so that the last of them moves last.
        for one, path in reversed([*zip(files, made, strict=True)]):
            stream = stack.enter_context(atomic_writer(path, mode=one.seen.mode))
            stream.write(one.seen.encoded(one.text))
            stream.flush()
            os.fsync(stream.fileno())


def _refuse_changed(folder: Path, one: Writing) -> None:
    if look(folder, one.path) != one.seen:
        raise UsageError(
            "changed while it was looked at", where=folder / one.path, remedy="call `spyre-ci init` again"
        )


def _put_back(one: Writing, path: Path) -> None:
    """What was there before, where this call wrote it."""
    if not path.is_file() or path.is_symlink() or path.read_bytes() != one.seen.encoded(one.text):
        return
    if one.seen.data is None:
        path.unlink()
        return
    with atomic_writer(path, mode=one.seen.mode) as stream:
        stream.write(one.seen.data)


def _missing_folders(folder: Path, files: Sequence[Path]) -> list[Path]:
    """Folders that writing makes, the outermost first."""
    wanted = {above for file in files for above in file.parents if above.is_relative_to(folder)}
    return sorted(one for one in wanted if not one.exists())
