"""Folders kept by SHA that searches share: made by one at a time, and not removed while in use."""

from __future__ import annotations

import fcntl
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from ci.core.errors import CommandError
from ci.core.locks import take

# In a folder that is whole; what a killed search left half made has none.
WHOLE = "whole"
_POLL_S = 0.5


class Kept:
    """One folder, held from when it is made until it is let go of.

    Args:
        folder: of it; beside it is the file that is locked, which stays.
        stop: says that the search was ended.
        timeout_s: seconds another search may take to make it.
        clock: seconds that never go back.
        sleep: waits for so many seconds.

    Raises:
        CommandError: another search makes it and does not come to an end, or ours was ended.
        OSError: the lock cannot be had there.
    """

    def __init__(
        self,
        folder: Path,
        *,
        stop: Callable[[], bool],
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.folder = folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._stream = lock_of(folder).open("ab")
        end = clock() + timeout_s
        while not self._held():
            if stop() or clock() >= end:
                self._stream.close()
                raise CommandError(
                    "another search prepares the same commit", where=folder, remedy="wait until it ends"
                )
            sleep(_POLL_S)

    def _held(self) -> bool:
        """Whoever makes it is alone; who finds it made has it in common with others."""
        if take(self._stream, fcntl.LOCK_SH) and self.whole:
            return True
        take(self._stream, fcntl.LOCK_UN)  # two who wait must not hold each other up
        return take(self._stream, fcntl.LOCK_EX)

    @property
    def whole(self) -> bool:
        """Whether it was made to its end."""
        return (self.folder / WHOLE).is_file()

    def done(self) -> None:
        """It is whole: others may use it as well."""
        (self.folder / WHOLE).touch()
        take(self._stream, fcntl.LOCK_SH)

    def let_go(self) -> None:
        """It is not used any more."""
        self._stream.close()


def forget(parent: Path, keep: int) -> None:
    """Remove what was not used for longest, but for what somebody uses or makes.

    Args:
        parent: of the folders.
        keep: how many stay.
    """
    try:
        kept = sorted(parent.glob(f"*/{WHOLE}"), key=lambda path: path.stat().st_mtime, reverse=True)
    except FileNotFoundError:
        return  # another search removes them at this moment
    for path in kept[keep:]:
        with lock_of(path.parent).open("ab") as stream:
            if take(stream, fcntl.LOCK_EX):
                path.unlink(missing_ok=True)  # first, so that half of it is never taken for all
                shutil.rmtree(path.parent, ignore_errors=True)


def lock_of(folder: Path) -> Path:
    """What whoever makes or uses a folder has the lock of; it stays when the folder goes."""
    return folder.with_name(f"{folder.name}.lock")
