"""Who has the store open: many at once, or one alone, to put another file in its place."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from ci.core.errors import RunInUseError
from ci.core.locks import take


class InUse:
    """A hold on a store, until it is closed or the process ends.

    Args:
        store: the store's file; the hold is on a file beside it, which stays.
        alone: whether nobody else may have the store open meanwhile.

    Raises:
        RunInUseError: somebody has it open, or alone.
    """

    def __init__(self, store: Path, *, alone: bool = False) -> None:
        path = store.with_name(f".{store.name}.lock")
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with suppress(OSError):  # a file system without locks: nothing to hold
            if not take(self._file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH):
                self.close()
                what = "is open: a server or a run uses it" if alone else "is being restored"
                remedy = "end `spyre-ci hud serve` and the runs" if alone else "wait until that is done"
                raise RunInUseError(f"the HUD store {what}", where=store, remedy=remedy)

    def close(self) -> None:
        """Let go."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
