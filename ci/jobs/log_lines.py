"""Lines of logs, made fit to be shown; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from ci.live.github import defused
from ci.report.text import plain

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


def without_time(line: bytes) -> tuple[bytes, bytes]:
    """The time a cluster puts before a line, and the line; no time before what is but a piece of one."""
    time, found, rest = line.partition(b" ")
    return (time, rest) if found and _TIME.match(time) else (b"", line)
