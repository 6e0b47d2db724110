"""The releases of a track in order: which is the newest, and which one a name means; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from packaging.version import Version

from ci.pins.record import Record, parsed

# Shorter ones could be of two releases.
SHA_LENGTH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A version that is or was pinned; `sha` is empty where nobody knew it yet."""

    version: str
    sha: str
    since: datetime

    @property
    def label(self) -> str:
        """Version and SHA in one word."""
        return f"{self.version}@{self.sha}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """Recorded releases, oldest first.

    They are ordered by version, so that a late fix of an old line is not taken for the newest. A word that is
    no version, such as `latest`, stands before all versions, by day.
    """

    ordered: tuple[Record, ...]

    @classmethod
    def of(cls, records: Iterable[Record]) -> Self:
        """Put records in order."""
        return cls(ordered=tuple(sorted(records, key=_order)))

    def place(self, version: str, sha: str, at: datetime) -> int:
        """The index of a release: 0 the oldest, -1 before all of them.

        A build that was never recorded stands where its version does.
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

    def place_of(self, one: Pinned | Record) -> int:
        """The index of a pin or a record."""
        return self.place(one.version, one.sha, one.since if isinstance(one, Pinned) else one.at)

    def newer(self, pin: Pinned | None) -> tuple[Record, ...]:
        """The releases that may follow a pin, newest last; none that was taken back.

        A pre-release follows only a pre-release; a track of nothing else begins with one.
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
        """The release that a version, a SHA or both mean: of several the last that was not taken back."""
        if version is None and not sha:
            return None
        found = [
            one
            for one in self.ordered
            if (version is None or same_version(one.version, version)) and (not sha or same_sha(one.sha, sha))
        ]
        return (None, *found, *(one for one in found if one.yanked is None))[-1]

    def record_of(self, pin: Pinned | None) -> Record | None:
        """The record of exactly what is pinned."""
        return self.named(pin.version, pin.sha) if pin else None


def number(version: str) -> Version | None:
    """The version by which a release is compared; of `2.13-ubi9` what stands before the dash."""
    return parsed(version) or parsed(version.partition("-")[0])


def same_version(one: str, other: str) -> bool:
    """Whether two texts are one version: `v2.13` is `2.13.0`."""
    numbers = parsed(one), parsed(other)
    return one == other if None in numbers else numbers[0] == numbers[1]


def same_sha(one: str, other: str) -> bool:
    """Whether two SHAs are one, either of them perhaps cut short; an unknown one is no other's."""
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
