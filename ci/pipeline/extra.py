"""What talking to GitHub needs besides spyre-ci itself."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ci.core.extras import wanted


def extra() -> AbstractContextManager[None]:
    """Within, a library that is not there is told as what it is: the extra was not installed."""
    return wanted("this wants", extra="github")
