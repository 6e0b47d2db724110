"""What holds now: what is pinned, what was asked for, whether a campaign is on; folded from the ledger, pure.

Events count in the order they were told. Whose clock went backwards can date an event before another that
was told earlier: what was said of requests, pins and ends of campaigns holds all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

from ci.core.errors import BadFileError
from ci.pins.events import (
    CampaignEnded,
    CampaignStarted,
    Event,
    Flagged,
    Requested,
    Scheduled,
    TakenBack,
    Upgraded,
    Withdrawn,
)
from ci.pins.record import Record
from ci.pins.releases import Pinned, Releases, parsed, same_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """A hardware test window.

    Attributes:
        name: of it.
        starts: when.
        planned: its end as planned; None: until it is told.
        begun: whether it was on when it was told, whatever the clock says now.
        ended: its end as told; None where nobody has.
    """

    name: str
    starts: datetime
    planned: datetime | None
    begun: bool
    ended: datetime | None = None

    def on(self, now: datetime) -> bool:
        """Whether it holds upgrades back."""
        begun = self.begun or self.starts <= now
        return begun and self.ended is None and (self.planned is None or now < self.planned)

    def over(self, now: datetime) -> datetime | None:
        """When it ended; None where it did not, or never began."""
        if self.ended is None and (self.planned is None or now < self.planned):
            return None
        end = self.ended or self.planned
        return end if end is not None and end > self.starts else None


class Coming(NamedTuple):
    """A release that is to come, and when."""

    on: datetime
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What holds at a moment.

    Attributes:
        now: the moment, in UTC.
        releases: that are recorded.
        pin: what is pinned; None before the first.
        last: when it was pinned, as the cycle counts it; None before the first.
        before: everything that was ever pinned, the oldest first.
        pending: requests that are neither answered nor superseded nor withdrawn, in their order.
        campaigns: that are on, in the order they were told.
        ended: when the last campaign ended; None where none has, or one is on.
        coming: releases with a day that are not there yet, the next one first.
        flagged: what was said of releases after they were recorded.
        deprecated: suites that what is pinned cannot support, as its upgrade told.
        ahead: the last event that was told later than now, which no clock allows; None where none was.
    """

    now: datetime
    releases: Releases
    pin: Pinned | None
    last: datetime | None
    before: tuple[Pinned, ...]
    pending: tuple[Requested, ...]
    campaigns: tuple[Campaign, ...]
    ended: datetime | None
    coming: tuple[Coming, ...]
    flagged: tuple[Flagged, ...]
    deprecated: tuple[str, ...]
    ahead: Event | None

    @property
    def reached(self) -> int:
        """How far the pin ever came, as a place among the releases; -1 where none."""
        return max((self.releases.place_of(one) for one in self.before), default=-1)

    @property
    def newest(self) -> Record | None:
        """Where the pin goes by itself: never to what was gone back from, nor to what lies before that."""
        newer = self.releases.newer(self.pin)
        if newer and self.releases.place_of_record(newer[-1]) > self.reached:
            return newer[-1]
        return None

    @property
    def mends(self) -> tuple[str, ...]:
        """SHAs that what is pinned was built anew with since its release, the first one first."""
        found = []
        for one in reversed(self.before):
            if self.pin is None or not same_version(one.version, self.pin.version):
                break
            if one.sha and self.releases.named(one.version) and not self.releases.named(one.version, one.sha):
                found.append(one.sha)
        return tuple(reversed(found))


def situation(records: Iterable[Record], events: Sequence[Event], *, now: datetime) -> Situation:
    """Fold records and events.

    Args:
        records: of the track, in any order.
        events: of it, in the order they were told.
        now: aware of its time zone.

    Raises:
        BadFileError: two requests have one id.
    """
    now = now.astimezone(UTC)
    pins = [
        Pinned(version=one.version, sha=one.sha, since=one.at) for one in events if isinstance(one, Upgraded)
    ]
    releases = Releases.of(as_told(records, events))
    campaigns = _campaigns(events)
    on = tuple(one for one in campaigns if one.on(now))
    ends = [end for one in campaigns if (end := one.over(now)) is not None]
    return Situation(
        now=now,
        releases=releases,
        pin=pins[-1] if pins else None,
        last=_last_upgrade(events, now),
        before=tuple(pins),
        pending=_pending(events),
        campaigns=on,
        ended=None if on else max(ends, default=None),
        coming=_coming(events, releases),
        flagged=tuple(one for one in events if isinstance(one, Flagged)),
        deprecated=_deprecated(events),
        ahead=next((one for one in reversed(events) if one.at > now), None),
    )


def as_told(records: Iterable[Record], events: Sequence[Event]) -> list[Record]:
    """Records with what was said of them since they were written; pure.

    Args:
        records: of a track, in any order.
        events: of it, in the order they were told.
    """
    found = {(one.version, one.sha): one for one in records}
    for event in events:
        if not isinstance(event, Flagged | TakenBack):
            continue
        one = found.get((event.version, event.sha))
        if one is None:
            continue
        if isinstance(event, TakenBack):
            update: dict[str, object] = {"yanked": event.text}
        else:
            update = {"flags": tuple(dict.fromkeys([*one.flags, *event.flags]))}
        found[event.version, event.sha] = one.model_copy(update=update)
    return list(found.values())


def _deprecated(events: Sequence[Event]) -> tuple[str, ...]:
    """What the last other release could not support; a build of the same adds to it."""
    found: tuple[str, ...] = ()
    version = None
    for one in events:
        if isinstance(one, Upgraded):
            anew = not one.image_changed or (version is not None and same_version(version, one.version))
            found = tuple(dict.fromkeys([*(found if anew else ()), *one.deprecated]))
            version = one.version
    return found


def _last_upgrade(events: Sequence[Event], now: datetime) -> datetime | None:
    """When the last upgrade was; never before what it answers, lest a wrong clock makes it look older."""
    last: datetime | None = None
    asked: dict[int, datetime] = {}
    for one in events:
        if isinstance(one, Requested):
            asked.setdefault(one.id, one.at)
        elif isinstance(one, Upgraded):
            before = [last, *(asked.get(done) for done in (*one.answers, *one.supersedes))]
            last = max([one.at, *(at for at in before if at is not None and at <= now)])
    return last


def _pending(events: Sequence[Event]) -> tuple[Requested, ...]:
    seen: dict[int, Requested] = {}
    pending: dict[int, Requested] = {}
    for one in events:
        if isinstance(one, Requested):
            first = seen.setdefault(one.id, one)
            if first is one:
                pending[one.id] = one
            elif first.model_copy(update={"at": one.at}) != one:
                raise BadFileError(
                    f"two requests have the id {one.id}", remedy="give the later one an id of its own"
                )
        elif isinstance(one, Withdrawn):
            pending.pop(one.id, None)
        elif isinstance(one, Upgraded):
            for done in (*one.answers, *one.supersedes):
                pending.pop(done, None)
    return tuple(pending.values())


def _campaigns(events: Sequence[Event]) -> tuple[Campaign, ...]:
    """By name; one that is told again was moved."""
    found: dict[str, Campaign] = {}
    for one in events:
        if isinstance(one, CampaignStarted):
            found[one.name] = Campaign(
                name=one.name, starts=one.starts, planned=one.ends, begun=one.starts <= one.at
            )
        elif isinstance(one, CampaignEnded) and one.name in found:
            found[one.name] = replace(found[one.name], ended=one.at)
    return tuple(found.values())


def _coming(events: Sequence[Event], releases: Releases) -> tuple[Coming, ...]:
    """What was told last of each version; what is released comes no more."""
    days: dict[object, Coming | None] = {}
    for one in events:
        if isinstance(one, Scheduled):
            key = parsed(one.version) or one.version
            days[key] = None if one.on is None else Coming(one.on, one.version)
    return tuple(sorted(one for one in days.values() if one and releases.named(one.version) is None))
