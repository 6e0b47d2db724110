"""What can go wrong with a cluster, each with its exit code; none of it holds a token."""

from __future__ import annotations

from pathlib import Path

from ci.core.errors import EXIT_INCOMPLETE, SpyreCiError


class ClusterError(SpyreCiError):
    """A cluster did not do what it was asked to.

    Attributes:
        said: the cluster's own words, on one line.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | Path | None = None,
        remedy: str | None = None,
        said: str = "",
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.said = said


class CredentialsError(ClusterError):
    """Nothing says which cluster is meant, or how one shows who asks."""


class ForbiddenError(ClusterError):
    """Whoever asks is not known, or may not do this (401, 403)."""


class MissingError(ClusterError):
    """What a call needs is not there (404): the namespace, or a kind this cluster does not serve."""


class RefusedError(ClusterError):
    """The cluster understood and does not take it (400, 422 and others of 4xx)."""


class ConflictError(ClusterError):
    """Something else has the name, or changed meanwhile (409)."""


class GoneError(ClusterError):
    """The version a list or watch was to go on from is no longer kept (410)."""

    exit_code = EXIT_INCOMPLETE


class ClusterAwayError(ClusterError):
    """No whole answer came, a bad one, or one that asks for more patience than there is."""

    exit_code = EXIT_INCOMPLETE


class CutError(ClusterAwayError):
    """An answer began and did not come to its end."""


class NotInTimeError(ClusterError):
    """What a cluster was to come to did not come within the time it had."""

    exit_code = EXIT_INCOMPLETE
