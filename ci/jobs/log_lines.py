"""Lines of logs, made fit to be shown; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from ci.core.text import plain
from ci.core.workflow_commands import defused

Unit = Literal["minutes", "hours", "days", "weeks"]
_SECONDS = {"minutes": 60, "hours": 3600, "days": 86_400, "weeks": 7 * 86_400}
_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
# A line that never ends is shown in pieces, and held no longer.
LONGEST_LINE = 1 << 16


def window_s(unit: Unit, amount: int) -> int:
    """Seconds of a window that reaches back from now."""
    return _SECONDS[unit] * amount


def split_lines(pieces: Iterable[bytes], longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """Lines without their ends, the last also where it has none; longer ones in pieces."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield from _cut(line, longest) if len(line) > longest else (line,)
        while len(rest) > longest:
            yield rest[:longest]
            rest = rest[longest:]
    if rest:
        yield rest


def _cut(line: bytes, longest: int) -> Iterator[bytes]:
    for start in range(0, len(line), longest):
        yield line[start : start + longest]


def shown_line(line: bytes, prefix: str) -> str:
    """A line behind its pod's prefix; it commands neither a terminal nor a CI."""
    text = plain(line.removesuffix(b"\r").decode(errors="replace")).replace("\n", " ")
    return defused(f"{prefix}{text}")


class Unseen:
    """Tells, of a log that is followed again after a cut, what was not given out before.

    Lines of one time may be many: a runtime gives all that it reads at once the same. So those of the last
    time are counted, in the pieces that `split_lines` makes of them.
    """

    def __init__(self) -> None:
        self.last = b""
        self._of_last = self._to_skip = 0
        self._at = b""
        self._again = False

    def cut(self) -> None:
        """The log is followed again, from before the last line that was given out."""
        self._again, self._to_skip, self._at = bool(self.last), self._of_last, b""

    def take(self, time: bytes) -> bool:
        """Whether the next piece is new.

        Args:
            time: of its line; empty where it goes on with a line whose time was told.
        """
        self._at = time or self._at
        if self._again:
            if self._at < self.last:
                return False
            if self._at == self.last and self._to_skip:
                self._to_skip -= 1
                return False
            self._again = self._at == self.last
        if self._at > self.last:
            self.last, self._of_last = self._at, 0
        self._of_last += self._at == self.last
        return True


def without_time(line: bytes) -> tuple[bytes, bytes]:
    """The time a cluster puts before a line, and the line; no time before what is but a piece of one."""
    time, found, rest = line.partition(b" ")
    return (time, rest) if found and _TIME.match(time) else (b"", line)
