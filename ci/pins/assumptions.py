"""What the protocol takes for granted, held against the ledger and the events; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from ci.pins.events import Event, Upgraded
from ci.pins.record import Record

# What was true long ago need not be told for ever.
WINDOW_DAYS = 365


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """Something the protocol takes for granted.

    Attributes:
        name: in words.
        holds: whether it does; None where too little has happened to tell.
        seen: what was counted.
    """

    name: str
    holds: bool | None
    seen: str

    @property
    def line(self) -> str:
        """For people."""
        said = {True: "holds", False: "NO LONGER HOLDS", None: "cannot be told yet"}[self.holds]
        return f"{self.name}: {said}: {self.seen}"


def assumptions(
    records: Sequence[Record], events: Sequence[Event], *, cycle_days: int, now: datetime
) -> tuple[Assumption, ...]:
    """Each assumption and whether it holds over the last year.

    Args:
        records: the ledger.
        events: what happened.
        cycle_days: of the protocol.
        now: the clock; what is later, as after a clock that went back, is left out.
    """
    since = now - timedelta(days=WINDOW_DAYS)
    ups = sorted(one.at for one in events if isinstance(one, Upgraded) and since <= one.at <= now)
    changed = _changes(sorted((one for one in records if one.at <= now), key=lambda one: one.at), since)
    return (_rare_upgrades(ups, cycle_days), _rare_changes(changed, cycle_days))


def _rare_upgrades(ups: Sequence[datetime], cycle_days: int) -> Assumption:
    cycle = timedelta(days=cycle_days)
    close = [(one, other) for one, other in pairwise(ups) if other - one < cycle]
    if len(ups) < 2:  # noqa: PLR2004  # of two there is a time between
        holds, seen = None, f"{len(ups)} in the last {WINDOW_DAYS} days"
    elif close:
        one, other = close[-1]
        apart = f"the last on {other:%Y-%m-%d}, {(other - one).days} days after it"
        holds = False
        seen = f"{len(close)} of {len(ups) - 1} in a year came sooner after the one before, {apart}"
    else:
        holds = True
        nearest = min(other - one for one, other in pairwise(ups)).days
        seen = f"{len(ups)} in the last {WINDOW_DAYS} days, the nearest two {nearest} days apart"
    return Assumption(name=f"no more than one upgrade in {cycle_days} days", holds=holds, seen=seen)


def _rare_changes(changed: Sequence[datetime], cycle_days: int) -> Assumption:
    """Of releases, on average: two at once and then none for long are rare as well."""
    name = f"what is released changes no more than once in {cycle_days} days"
    if len(changed) < 2:  # noqa: PLR2004  # as above
        return Assumption(name=name, holds=None, seen=f"{len(changed)} in the last {WINDOW_DAYS} days")
    days = (changed[-1] - changed[0]) / timedelta(days=1) / (len(changed) - 1)
    seen = f"{len(changed)} in the last {WINDOW_DAYS} days, one in {days:.1f} days"
    return Assumption(name=name, holds=days >= cycle_days, seen=seen)


def _changes(records: Sequence[Record], since: datetime) -> list[datetime]:
    """When what is released became another; a release that is the same under another name is none."""
    times, before = [], ""
    for record in records:
        if record.sha != before and record.at >= since:
            times.append(record.at)
        before = record.sha
    return times
