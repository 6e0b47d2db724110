"""A file of the checkout as it is before anything is decided: its text, or why it is none."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from ci.init.checkout import MOST_BYTES

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
