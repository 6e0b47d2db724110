"""Libraries that come with an extra, and how it is said that one is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ci.core.errors import CommandError


@contextmanager
def wanted(what: str, *, extra: str, sessions: str = "") -> Iterator[None]:
    """Within, a library that is not found is told as what it is: the extra was not installed.

    Args:
        what: wants it, with the verb: `packaging needs`.
        extra: that has it.
        sessions: of nox whose environment has it.

    Raises:
        CommandError: an import failed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise CommandError(
            f"{what} a library that is not installed: {error.name}",
            remedy=(f"call {sessions}, which have it; or " if sessions else "")
            + f"install it: pip install 'spyre-ci[{extra}]'",
        ) from error
