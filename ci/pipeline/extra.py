"""What talking to GitHub needs besides spyre-ci itself, and how it is said that it is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ci.errors import CommandError


@contextmanager
def extra() -> Iterator[None]:
    """Within, a library that is not there is told as what it is: the extra was not installed.

    Raises:
        CommandError: an import failed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise CommandError(
            f"this wants a library that is not installed: {error.name}",
            remedy="install it: pip install 'spyre-ci[github]'",
        ) from error
