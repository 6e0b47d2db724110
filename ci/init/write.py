"""Writing what was decided: all files or none, and none that changed since it was looked at."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.core.errors import UsageError
from ci.init.seen import Seen, look
from test_selection.files import atomic_writer


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
