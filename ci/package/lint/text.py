"""Names and messages out of a project's files, made harmless for terminals and for GitHub's runner; pure."""

from __future__ import annotations

from ci.live.github import defused
from ci.report.text import one_line

_MOST = 500


def harmless(text: str) -> str:
    """A line that says what a project's files say, and does nothing."""
    return defused(one_line(text, _MOST))
