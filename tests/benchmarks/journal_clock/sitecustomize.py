"""In every process that finds this on its path: notes the seconds that writing and syncing journals takes.

Each process keeps a file of its own in the folder JOURNAL_CLOCK: seconds in writes, number of writes, seconds
in syncs.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = os.environ.get("JOURNAL_CLOCK", "")
SHAPE = struct.Struct("3d")


class Clock:
    """What this process spent; a forked one begins anew."""

    def __init__(self) -> None:
        self._pid = self._file = -1
        self.write_s = self.sync_s = 0.0
        self.writes = 0

    def around(self, act: Callable[..., None], *, writes: bool) -> Callable[..., None]:
        """`act`, with its seconds noted."""

        def timed(*args: Any, **kwargs: Any) -> None:
            self._own()
            began = time.perf_counter()
            try:
                act(*args, **kwargs)
            finally:
                took = time.perf_counter() - began
                if writes:
                    self.write_s += took
                    self.writes += 1
                else:
                    self.sync_s += took
                # A child ends without a word, so each sum is noted at once.
                os.pwrite(self._file, SHAPE.pack(self.write_s, self.writes, self.sync_s), 0)

        return timed

    def _own(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            path = Path(FOLDER, f"{self._pid}-{time.monotonic_ns()}")
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            self.write_s = self.sync_s = 0.0
            self.writes = 0


def install() -> None:
    """Wrap what writes and syncs."""
    from ci.record.journal import JournalWriter  # noqa: PLC0415  # only where journals are written

    clock = Clock()
    for name in ("write", "sync"):
        setattr(JournalWriter, name, clock.around(getattr(JournalWriter, name), writes=name == "write"))


if FOLDER:
    install()
