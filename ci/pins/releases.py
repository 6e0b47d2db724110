"""The releases of a track in their order: which is the newest, and which one a name means; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from packaging.version import InvalidVersion, Version

from ci.pins.record import Record

# Shorter ones could be of two releases.
SHA_LENGTH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """What is pinned, or was.

    Attributes:
        version: of it.
        sha: of it; empty where nobody knew it yet.
        since: when it was pinned.
    """

    version: str
    sha: str
    since: datetime

    @property
    def label(self) -> str:
        """Version and SHA in one word."""
        return f"{self.version}@{self.sha}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """Recorded releases, the oldest first.

    They stand by version, so that a late mend of an old line is not taken for the newest. What is no version,
    as a tag of an image may be, stands before all that are, by day: it follows nothing but another such word.
    """

    ordered: tuple[Record, ...]

    @classmethod
    def of(cls, records: Iterable[Record]) -> Self:
        """Put them into their order."""
        return cls(ordered=tuple(sorted(records, key=_order)))

    def place(self, version: str, sha: str, at: datetime) -> int:
        """Where a release stands: 0 the oldest, -1 before all of them.

        A build that was never recorded stands where its version does: what is recorded of the same version
        is that build, as far as anybody can tell.
        """
        twins = [index for index, one in enumerate(self.ordered) if same_version(one.version, version)]
        exact = [index for index in twins if same_sha(self.ordered[index].sha, sha)]
        if exact or twins:
            return (exact or twins)[-1]
        wanted = number(version)
        there = ((one.at, number(one.version)) for one in self.ordered)
        if wanted is None:
            return sum(found is None and day <= at for day, found in there) - 1
        return sum(found is None or found <= wanted for _, found in there) - 1

    def place_of(self, pin: Pinned) -> int:
        """Where it stands."""
        return self.place(pin.version, pin.sha, pin.since)

    def place_of_record(self, record: Record) -> int:
        """The same of a release."""
        return self.place(record.version, record.sha, record.at)

    def newer(self, pin: Pinned | None) -> tuple[Record, ...]:
        """What may follow a pin, the newest last; what was taken back follows nothing.

        A pre-release follows nothing but a pre-release; a track of nothing else has to begin with one.
        """
        place = -1 if pin is None else self.place_of(pin)
        after = tuple(one for one in self.ordered[place + 1 :] if one.yanked is None)
        if pin is not None and _is_preview(pin.version):
            return after
        final = tuple(one for one in after if not _is_preview(one.version))
        return final or (after if pin is None else ())

    @property
    def last(self) -> Record | None:
        """The newest; None where nothing is recorded."""
        return (None, *self.ordered, *self.newer(None))[-1]

    def named(self, version: str | None, sha: str = "") -> Record | None:
        """The release that somebody means by a version, a SHA or both; None where there is none.

        Of several the last one that was not taken back.
        """
        if version is None and not sha:
            return None
        found = [
            one
            for one in self.ordered
            if (version is None or same_version(one.version, version)) and (not sha or same_sha(one.sha, sha))
        ]
        offered = [one for one in found if one.yanked is None]
        return (None, *found, *offered)[-1]


def parsed(version: str) -> Version | None:
    """A version that can be compared; None for any other word."""
    try:
        return Version(version)
    except InvalidVersion:
        return None


def number(version: str) -> Version | None:
    """By what a release is compared: its version, else what stands before its first dash, as of 2.13-ubi9."""
    return parsed(version) or parsed(version.partition("-")[0])


def same_version(one: str, other: str) -> bool:
    """Whether two texts are one version: `v2.13` is `2.13.0`."""
    numbers = parsed(one), parsed(other)
    return one == other if None in numbers else numbers[0] == numbers[1]


def same_sha(one: str, other: str) -> bool:
    """Whether two SHAs are one, either of them possibly cut short; an unknown one is no other's."""
    short, long = sorted((_bare(one), _bare(other)), key=len)
    return len(short) >= SHA_LENGTH and long.startswith(short)


def _bare(sha: str) -> str:
    return sha.lower().removeprefix("sha256:")


def _is_preview(version: str) -> bool:
    found = number(version)
    return found is not None and found.is_prerelease


def _order(record: Record) -> tuple[Any, ...]:
    found = number(record.version)
    return (found is not None, found or Version("0"), record.at, record.version)
