"""What can go wrong with a cluster, each with its exit code; none of it holds a token."""

from __future__ import annotations

from pathlib import Path

from ci.core.errors import EXIT_GOES_ON, EXIT_INCOMPLETE, SpyreCiError


class ClusterError(SpyreCiError):
    """A cluster did not do what it was asked to.

    Attributes:
        said: the cluster's own words, on one line.
    """

    def __init__(
        self, what: str, *, where: str | Path | None = None, remedy: str | None = None, said: str = ""
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.said = said


class CredentialsError(ClusterError):
    """No cluster is configured, or its credentials cannot be used."""


class ForbiddenError(ClusterError):
    """The cluster does not know the caller, or does not allow the request (401, 403)."""


class MissingError(ClusterError):
    """The namespace, object or kind does not exist (404)."""


class RefusedError(ClusterError):
    """The cluster rejects the request (400, 422 and others of 4xx)."""


class ConflictError(ClusterError):
    """Another object has the name, or it changed meanwhile (409)."""


class GoneError(ClusterError):
    """The version of a list or watch is no longer kept (410)."""

    exit_code = EXIT_INCOMPLETE


class ClusterAwayError(ClusterError):
    """No complete answer came within the time there was."""

    exit_code = EXIT_INCOMPLETE


class JobGoesOnError(ClusterAwayError):
    """The cluster cannot be asked any more about a job that goes on."""

    exit_code = EXIT_GOES_ON


class CutError(ClusterAwayError):
    """A stream broke off before its end."""


class NotInTimeError(ClusterError):
    """The cluster did not reach the wanted state in time."""

    exit_code = EXIT_INCOMPLETE
