"""What can go wrong with Jenkins, each with its exit code; none of it holds a token."""

from __future__ import annotations

from ci.core.errors import EXIT_INCOMPLETE, SpyreCiError


class JenkinsError(SpyreCiError):
    """Jenkins did not do what it was asked to."""


class JenkinsDeniedError(JenkinsError):
    """The user or its token is none, or may not do this."""


class JenkinsRefusedError(JenkinsError):
    """Jenkins understood and does not take it."""


class JenkinsMissingError(JenkinsRefusedError):
    """There is no such thing, or the user may not see it (404)."""


class JenkinsAwayError(JenkinsError):
    """No whole answer came, or one that does not say whether it was done."""

    exit_code = EXIT_INCOMPLETE
