"""What can go wrong with GitHub, each with its exit code; none of it holds a token."""

from __future__ import annotations

from ci.core.errors import EXIT_INCOMPLETE, SpyreCiError


class GitHubError(SpyreCiError):
    """GitHub did not do what it was asked to."""


class GitHubDeniedError(GitHubError):
    """The token is none, or may not do this (401, 403)."""


class GitHubMissingError(GitHubError):
    """There is no such thing, or the token may not see it (404, 410)."""


class GitHubRefusedError(GitHubError):
    """GitHub understood and does not take it (422 and others of 4xx)."""


class GitHubAwayError(GitHubError):
    """No whole answer came, a bad one, or one that asks for more patience than there is.

    Attributes:
        retry_s: after how long a limit is over; None where it is no limit.
        taken: whether what was asked for may have been done all the same.
    """

    exit_code = EXIT_INCOMPLETE

    def __init__(
        self, what: str, *, remedy: str | None = None, retry_s: float | None = None, taken: bool = True
    ) -> None:
        super().__init__(what, remedy=remedy)
        self.retry_s, self.taken = retry_s, taken
