"""The state of a track at a moment, folded from its records and events; pure.

Events count in the order they were told. A clock that went backwards can date an event before an earlier one:
what was said of requests, pins and ends of campaigns holds all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property

from ci.core.errors import BadFileError
from ci.pins import events as told
from ci.pins.events import Event, Flagged, Requested, Scheduled, TakenBack, Upgraded
from ci.pins.record import Record, parsed
from ci.pins.releases import Pinned, Releases, same_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """A hardware test window.

    Attributes:
        name: of it.
        starts: when.
        planned: its planned end; None: until it is ended.
        begun: whether it was on when it was told, whatever the clock says now.
        ended: when it was ended; None where nobody has.
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


@dataclass(kw_only=True)
class State:
    """What holds at a moment.

    Attributes:
        now: the moment, in UTC.
        records: by version and SHA, with what was said of them since they were written.
        pins: everything that was ever pinned, oldest first.
        last: when the cycle last began; None before the first upgrade.
        requests: all of them, by id.
        open: requests that are neither answered nor superseded nor withdrawn.
        windows: campaigns by name.
        days: what was last told of when a version is to come.
        flagged: what was said of releases after they were recorded.
        deprecated: suites that what is pinned cannot support.
        ahead: the last event that was told later than now, which no clock allows.
    """

    now: datetime
    records: dict[tuple[str, str], Record]
    pins: list[Pinned] = field(default_factory=list)
    last: datetime | None = None
    requests: dict[int, Requested] = field(default_factory=dict)
    open: dict[int, Requested] = field(default_factory=dict)
    windows: dict[str, Campaign] = field(default_factory=dict)
    days: dict[object, Scheduled] = field(default_factory=dict)
    flagged: list[Flagged] = field(default_factory=list)
    deprecated: tuple[str, ...] = ()
    ahead: Event | None = None

    def take(self, event: Event) -> None:
        """Let an event happen.

        Raises:
            BadFileError: two different requests have one id.
        """
        if event.at > self.now:
            self.ahead = event
        match event:
            case Requested():
                self._request(event)
            case told.Withdrawn():
                self.open.pop(event.id, None)
            case Upgraded():
                self._upgrade(event)
            case Scheduled():
                self.days[parsed(event.version) or event.version] = event
            case told.CampaignStarted(at=at, name=name, starts=starts, ends=ends):
                self.windows[name] = Campaign(name=name, starts=starts, planned=ends, begun=starts <= at)
            case told.CampaignEnded(name=name) if name in self.windows:
                self.windows[name] = replace(self.windows[name], ended=event.at)
            case TakenBack(text=text):
                self._note(event, yanked=text)
            case Flagged(flags=flags):
                self.flagged.append(event)
                there = self.records.get((event.version, event.sha))
                self._note(event, flags=tuple(dict.fromkeys([*(there.flags if there else ()), *flags])))

    def _request(self, event: Requested) -> None:
        first = self.requests.setdefault(event.id, event)
        if first is event:
            self.open[event.id] = event
        elif first.model_copy(update={"at": event.at}) != event:
            raise BadFileError(
                f"two requests have the id {event.id}", remedy="give the later one an id of its own"
            )

    def _upgrade(self, event: Upgraded) -> None:
        # Never before what it answers, lest a wrong clock makes it look older.
        done = (*event.answers, *event.supersedes)
        before = [self.last, *(self.requests[one].at for one in done if one in self.requests)]
        self.last = max([event.at, *(at for at in before if at is not None and at <= self.now)])
        # A build of the same image or version adds to what is deprecated; another one begins anew.
        same = not event.image_changed or (
            self.pin is not None and same_version(self.pin.version, event.version)
        )
        self.deprecated = tuple(dict.fromkeys([*(self.deprecated if same else ()), *event.deprecated]))
        self.pins.append(Pinned(version=event.version, sha=event.sha, since=event.at))
        for one in done:
            self.open.pop(one, None)

    def _note(self, event: Flagged | TakenBack, **update: object) -> None:
        key = (event.version, event.sha)
        if key in self.records:
            self.records[key] = self.records[key].model_copy(update=update)

    @property
    def pin(self) -> Pinned | None:
        """What is pinned; None before the first upgrade."""
        return self.pins[-1] if self.pins else None

    @cached_property
    def releases(self) -> Releases:
        """The records in order."""
        return Releases.of(self.records.values())

    @property
    def pending(self) -> tuple[Requested, ...]:
        """Requests that are still open, in their order."""
        return tuple(self.open.values())

    @property
    def campaigns(self) -> tuple[Campaign, ...]:
        """Campaigns that are on, in the order they were told."""
        return tuple(one for one in self.windows.values() if one.on(self.now))

    @property
    def ended(self) -> datetime | None:
        """When the last campaign ended; None where none has, or one is on."""
        ends = [end for one in self.windows.values() if (end := one.over(self.now)) is not None]
        return None if self.campaigns else max(ends, default=None)

    @property
    def coming(self) -> list[tuple[datetime, str]]:
        """Day and version of releases that are still to come, the next one first."""
        return sorted(
            (one.on, one.version)
            for one in self.days.values()
            if one.on is not None and self.releases.named(one.version) is None
        )

    @property
    def reached(self) -> int:
        """The furthest release that was ever pinned, as an index; -1 where none."""
        return max(map(self.releases.place_of, self.pins), default=-1)

    @property
    def newest(self) -> Record | None:
        """Where the pin goes by itself: never back to what was left, nor to what lies before that."""
        newer = self.releases.newer(self.pin)
        return newer[-1] if newer and self.releases.place_of(newer[-1]) > self.reached else None

    @property
    def fixes(self) -> tuple[str, ...]:
        """SHAs of fixes that what is pinned was built with since its release, in their order."""
        found = []
        for one in reversed(self.pins):
            if self.pin is None or not same_version(one.version, self.pin.version):
                break
            if one.sha and self.releases.named(one.version) and not self.releases.named(one.version, one.sha):
                found.append(one.sha)
        return tuple(reversed(found))


def fold(records: Iterable[Record], events: Sequence[Event], *, now: datetime) -> State:
    """The state of a track.

    Args:
        records: in any order.
        events: in the order they were told.
        now: aware of its time zone.

    Raises:
        BadFileError: two different requests have one id.
    """
    state = State(now=now.astimezone(UTC), records={(one.version, one.sha): one for one in records})
    for event in events:
        state.take(event)
    return state
