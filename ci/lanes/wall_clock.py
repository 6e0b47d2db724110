"""The moments at which a line of cron is due in a time zone, also on the days on which its clocks change.

As in Debian's cron, a time that is named comes once a day: at the next minute there is where the clock leaves
it out, and the first time where it comes twice. What begins with `*` in minute or hour goes by minutes that
really pass. cronsim finds the times on a wall; which moments those are is reckoned here, as cronsim loses an
hour where clocks change at midnight.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo

from cronsim import CronSim

# Longer than any clock is put back for winter.
_TWICE = timedelta(hours=3)
_MINUTE = timedelta(minutes=1)


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
