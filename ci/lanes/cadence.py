"""When a lane is due: cron, times a day, or a time after the end of its last run. Pure: clocks are given.

As in Debian's cron, a time that is named comes once a day, also on the days on which the clocks of its zone
change: at the next minute there is where the clock leaves it out, and the first time where it comes twice.
What begins with `*` in minute or hour goes by minutes that really pass. cronsim finds the times on a wall;
which moments those are is reckoned here, as cronsim loses an hour where clocks change at midnight.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from cronsim import CronSim

from ci.config.lanes_model import AfterEnd, Cadence, Lane

_BITS = 64
# Longer than any clock is put back for winter.
_TWICE = timedelta(hours=3)
_MINUTE = timedelta(minutes=1)
MOST_PASSED = 500
_DAY_MINUTES = 24 * 60
_UNIT_S = {"hours": 3600, "days": 24 * 3600}


def drawn(seed: int, *about: str | int) -> int:
    """A whole number below 2**64, always the same for the same seed and words.

    Args:
        seed: of the settings.
        about: what it is drawn for.
    """
    text = json.dumps([seed, *about])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[: _BITS // 8], "big")


def share(seed: int, *about: str | int) -> float:
    """The same as a number of at least 0 and below 1."""
    # A float holds 53 bits: with all 64 the largest would round to 1.
    return (drawn(seed, *about) >> 11) / 2**53


def line_times(cron: str, zone: tzinfo, edge: int, *, backwards: bool = False) -> Iterator[int]:
    """The moments of a line after an edge, or backwards from it on; one may come more than once in a row.

    Args:
        cron: five fields.
        zone: in which they are read.
        edge: seconds since the epoch; forwards it is left out, backwards it is not.
        backwards: the latest first.
    """
    walls = CronSim(cron, _start(zone, edge, backwards=backwards), reverse=backwards)
    minute, hour, *_ = cron.split()
    by_minutes = "*" in {minute[0], hour[0]}
    found = _passing(walls, zone, backwards=backwards) if by_minutes else _named(walls, zone)
    return (at for at in found if (at <= edge if backwards else at > edge))


def _start(zone: tzinfo, edge: int, *, backwards: bool) -> datetime:
    """What a wall clock shows at the edge, or so much before that no time that comes twice is missed."""
    here, span = datetime.fromtimestamp(edge, tz=zone), int(_TWICE.total_seconds())
    around = {datetime.fromtimestamp(edge + way * span, tz=zone).utcoffset() for way in (-1, 0, 1)}
    wall = here.replace(tzinfo=None, fold=0)
    if backwards:
        # The edge itself counts.
        return wall + (timedelta(seconds=1) if len(around) == 1 else _TWICE)
    return wall if len(around) == 1 else wall - _TWICE


def _named(walls: Iterator[datetime], zone: tzinfo) -> Iterator[int]:
    for wall in walls:
        moments = _moments(wall, zone)
        while not moments:
            wall += _MINUTE  # noqa: PLW2901  # until the clock shows a time again
            moments = _moments(wall, zone)
        yield moments[0]


def _passing(walls: Iterator[datetime], zone: tzinfo, *, backwards: bool) -> Iterator[int]:
    """All moments of all times, in order: an hour that comes twice is passed through twice."""
    sign = -1 if backwards else 1
    later: list[int] = []
    for wall in walls:
        moments = sorted(sign * at for at in _moments(wall, zone))
        if not moments:
            continue
        # The first moment of a time is before all those of the times to come.
        while later and later[0] < moments[0]:
            yield sign * heapq.heappop(later)
        yield sign * moments[0]
        for at in moments[1:]:
            heapq.heappush(later, at)


def _moments(wall: datetime, zone: tzinfo) -> list[int]:
    """When a clock on the wall shows a time: once, twice, or never."""
    found = sorted({int(wall.replace(tzinfo=zone, fold=fold).timestamp()) for fold in (0, 1)})
    return [at for at in found if datetime.fromtimestamp(at, tz=zone).replace(tzinfo=None, fold=0) == wall]


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
