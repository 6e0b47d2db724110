"""What can go wrong with a lane's run far away, beside what the far side's client says."""

from __future__ import annotations

from ci.core.errors import EXIT_INCOMPLETE, SpyreCiError


class UnsettledError(SpyreCiError):
    """A start was asked for a moment ago, and may still come to light."""

    exit_code = EXIT_INCOMPLETE


class MovedError(SpyreCiError):
    """A run was started at another place than its lane has now; its old place may come back."""

    exit_code = EXIT_INCOMPLETE


class NotSubmittedError(SpyreCiError):
    """A job was not submitted, and another time will not help."""


class SubmitAwayError(SpyreCiError):
    """A job was not submitted, and another time may help."""

    exit_code = EXIT_INCOMPLETE
