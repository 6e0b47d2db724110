"""The output of a run here, kept from filling the disk: its middle is cut out once it grows too long."""

from __future__ import annotations

import os

_UNIT = 1 << 30  # a GiB
MOST_BYTES = _UNIT
# So much of the beginning, and of the end at that moment, stays.
KEPT_BYTES = 16 << 20


class LongOutput:
    """The file that a run prints into, opened to read and to append; who prints notices nothing.

    Args:
        descriptor: of the file.
        most: bytes it may have before it is cut.
        kept: bytes at its beginning, and as many at its end, that stay.
    """

    def __init__(self, descriptor: int, *, most: int = MOST_BYTES, kept: int = KEPT_BYTES) -> None:
        self._descriptor, self._most, self._kept = descriptor, most, kept
        self._cut = 0

    def check(self) -> None:
        """Cut the middle out where it is too long.

        Raises:
            OSError: the file cannot be changed.
        """
        size = os.fstat(self._descriptor).st_size
        if size <= self._most:
            return
        tail = os.pread(self._descriptor, self._kept, size - self._kept)
        self._cut += size - 2 * self._kept
        # What is printed between these two lines is lost with the rest.
        os.ftruncate(self._descriptor, self._kept)
        note = f"\n[{self._cut / _UNIT:.2f} GiB of what it printed are cut out here]\n"
        os.write(self._descriptor, note.encode() + tail)
