"""How sentences name versions, days and lists; pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from ci.core.text import one_line

MAX_NAME = 100


def named(text: str, limit: int = MAX_NAME) -> str:
    """A name that somebody else gave, in backticks that it cannot end: safe in a sentence and in Markdown."""
    return f"`{one_line(text, limit).replace('`', chr(39)) or '-'}`"


def day(at: datetime) -> str:
    """The day of a moment, in UTC."""
    return at.astimezone(UTC).date().isoformat()


def moment(at: datetime) -> str:
    """A moment to the minute, in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def listed(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    found = list(words)
    return " and ".join(filter(None, [", ".join(found[:-1]), *found[-1:]]))
