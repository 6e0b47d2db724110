"""What a release is before it is recorded, and what a source of releases is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from ci.core.errors import EXIT_INCOMPLETE, SpyreCiError
from ci.pins.signatures import Signature


class UntoldError(SpyreCiError):
    """A release whose packages cannot be told."""

    exit_code = EXIT_INCOMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release that a source has.

    Attributes:
        version: as it is called.
        sha: exactly what it is, hexadecimal; empty where only a look at it tells.
        also: more of the same release, any of which may be recorded, such as its other wheels.
        yanked: why its index has taken it back, perhaps empty; None: it has not.
    """

    version: str
    sha: str
    also: frozenset[str] = frozenset()
    yanked: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a look at a release found.

    Attributes:
        sha: exactly what it is.
        released_at: as the source says; None where it does not.
        packages: name to version.
        origins: of those from no index.
        read_by: what told the packages.
        signatures: of the entry points.
        unread: lines that name no package.
    """

    sha: str
    packages: Mapping[str, str]
    read_by: str
    released_at: datetime | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    signatures: Mapping[str, Signature | None] = field(default_factory=dict)
    unread: tuple[str, ...] = ()


class Source(Protocol):
    """Where releases of a track come from."""

    @property
    def name(self) -> str:
        """Of it, without credentials."""

    def releases(self, only: str | None) -> Sequence[Release]:
        """The releases there are, or the one named.

        Raises:
            SpyreCiError: the source cannot be asked, or has no such release.
        """

    def look(self, release: Release) -> Seen:
        """What is in a release.

        Raises:
            SpyreCiError: it cannot be looked at, or is not what it should be.
        """
