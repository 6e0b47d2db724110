"""When a lane is due: cron, times a day, or a time after the end of its last run. Pure: clocks are given."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo

from ci.config.lanes_model import AfterEnd, Cadence, Lane
from ci.lanes.draw import drawn
from ci.lanes.wall_clock import line_times

MOST_PASSED = 500
_DAY_MINUTES = 24 * 60
_UNIT_S = {"hours": 3600, "days": 24 * 3600}


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """When a lane is due, in whole seconds since the epoch, and why then, in words."""

    at: int
    why: str


def crons(cadence: Cadence) -> tuple[str, ...]:
    """The cron lines that say a cadence; none where it counts from the end of a run.

    Where a day does not divide into so many parts, a time is the whole minute that its part begins in. CIs
    get these lines as well, so that a lane has the same times wherever it runs.
    """
    if cadence.cron is not None:
        return (cadence.cron,)
    if cadence.times_a_day is None:
        return ()
    hour, minute = map(int, cadence.first.split(":"))
    times = sorted(
        divmod((hour * 60 + minute + number * _DAY_MINUTES // cadence.times_a_day) % _DAY_MINUTES, 60)
        for number in range(cadence.times_a_day)
    )
    minutes = sorted({minute for _, minute in times})
    hours = {one: ",".join(str(hour) for hour, minute in times if minute == one) for one in minutes}
    return tuple(f"{one} {hours[one]} * * *" for one in minutes)


def said(cadence: Cadence, zone: tzinfo) -> str:
    """A cadence in words."""
    if cadence.after_end is not None:
        return said_after_end(cadence.after_end)
    if cadence.cron is not None:
        return f"cron {cadence.cron}, {zone}"
    often = "once" if cadence.times_a_day == 1 else f"{cadence.times_a_day} times"
    return f"{often} a day, from {cadence.first} on, {zone}"


def said_after_end(after: AfterEnd) -> str:
    """A time after the end of the last run, in words."""
    span = f"{after.min:g}" if after.min == after.max else f"{after.min:g} to {after.max:g}"
    return f"{span} {after.unit} after the end of the last run"


def next_due(
    lane: Lane, zone: tzinfo, *, name: str, looked: float | None, last_end: float | None, now: float
) -> Due:
    """When a lane is due next; in the past where it has been due since somebody looked last.

    Args:
        lane: its settings.
        zone: in which cron and times of day are read.
        name: of the lane.
        looked: up to when its times were looked at; None: never, so nothing has passed.
        last_end: when its last run ended; None: there was none. One that lies ahead counts as one of now.
        now: seconds since the epoch.
    """
    why = said(lane.cadence, zone)
    if lane.cadence.after_end is None:
        after = now if looked is None else min(looked, now)
        return Due(at=next(_times(lane.cadence, zone, math.floor(after))), why=why)
    if last_end is None:
        return Due(at=int(now), why=f"{why}; it has not run yet")
    end = int(min(last_end, now))
    wait = _drawn_wait(lane.cadence.after_end, lane.seed, name, end)
    return Due(at=end + wait, why=f"{why}: {_hours(wait)} were drawn")


def passed(lane: Lane, zone: tzinfo, *, after: float, until: float) -> list[int]:
    """The times of cron or times a day after one moment and up to another, the last `MOST_PASSED` of them.

    Args:
        lane: its settings.
        zone: in which they are read.
        after: seconds since the epoch; a time at this very second has passed before.
        until: seconds since the epoch, included.
    """
    if until <= after:
        return []
    # From behind, as there may be millions where a clock jumped by years.
    newest = itertools.takewhile(
        lambda at: at > after, _times(lane.cadence, zone, math.floor(until), backwards=True)
    )
    return sorted(itertools.islice(newest, MOST_PASSED))


def _times(cadence: Cadence, zone: tzinfo, edge: int, *, backwards: bool = False) -> Iterator[int]:
    """Every time after an edge, or backwards from it on, each once."""
    lines = [line_times(cron, zone, edge, backwards=backwards) for cron in crons(cadence)]
    # Two times of a lane can fall together: into the hour that is left out in spring.
    for at, _ in itertools.groupby(heapq.merge(*lines, reverse=backwards)):
        yield at


def _drawn_wait(after: AfterEnd, seed: int, name: str, end: int) -> int:
    """Whole seconds between the two bounds, the same whenever they are drawn again for an end."""
    low = round(after.min * _UNIT_S[after.unit])
    high = max(low, round(after.max * _UNIT_S[after.unit]))
    return low + drawn(seed, name, end) % (high - low + 1)


def _hours(seconds: int) -> str:
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"
