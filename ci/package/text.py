"""What a project's files, linters and tests say, made harmless for terminals and GitHub's runner; pure."""

from __future__ import annotations

from ci.live.github import defused
from ci.report.text import clip, one_line, plain

_MOST = 500
_MOST_OF_A_LINE = 4000


def harmless(text: str) -> str:
    """A message on one line that says what it says, and does nothing."""
    return defused(one_line(text, _MOST))


def harmless_line(text: str) -> str:
    """A line of somebody's output, with its blanks, that says what it says, and does nothing."""
    return defused(clip(plain(text), _MOST_OF_A_LINE))
