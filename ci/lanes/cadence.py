"""When a lane is due: at the times of cron lines, or a time after the end of its last run. Pure.

cronsim reads cron lines as Debian's cron does: a named time comes once a day, also on the days on which
clocks change (at the next minute there is, or the first of two), and one with `*` by hours that pass.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Iterator
from datetime import datetime, tzinfo

from cronsim import CronSim

from ci.config.lanes_model import AfterEnd, Cadence

_DAY_MINUTES = 24 * 60
_UNIT_S = {"hours": 3600, "days": 24 * 3600}


def cron_lines(cadence: Cadence) -> tuple[str, ...]:
    """The cron lines of a cadence; none where it counts from the end of a run.

    Where a day does not divide into `times_a_day` parts, a time is the whole minute that its part begins in.
    """
    if cadence.cron is not None:
        return (cadence.cron,)
    if cadence.times_a_day is None:
        return ()
    hour, minute = map(int, cadence.first.split(":"))
    starts = (
        (hour * 60 + minute + number * _DAY_MINUTES // cadence.times_a_day) % _DAY_MINUTES
        for number in range(cadence.times_a_day)
    )
    by_minute: dict[int, list[int]] = {}
    for start in sorted(starts):
        by_minute.setdefault(start % 60, []).append(start // 60)
    return tuple(f"{minute} {','.join(map(str, hours))} * * *" for minute, hours in sorted(by_minute.items()))


def times_after(cadence: Cadence, zone: tzinfo, moment: float) -> Iterator[int]:
    """Every time of a cadence's cron lines after a moment, in order, in seconds since the epoch."""
    start = datetime.fromtimestamp(math.floor(moment), tz=zone)
    lines = [(int(at.timestamp()) for at in CronSim(line, start)) for line in cron_lines(cadence)]
    # In an hour that comes twice cronsim begins with times of the first, and two lines meet in one left out.
    later = (at for at in heapq.merge(*lines) if at > moment)
    return (at for at, _ in itertools.groupby(later))


def wait_s(after: AfterEnd, *, seed: int, name: str, end: float) -> int:
    """Seconds to wait after the end of a lane's run: drawn between the bounds, the same for the same end."""
    low, high = (round(bound * _UNIT_S[after.unit]) for bound in (after.min, after.max))
    return drawn(seed, name, int(end)).randint(low, max(low, high))


def drawn(seed: int, *about: str | int) -> random.Random:
    """Random numbers that are the same for the same seed and words, also after a restart."""
    return random.Random(repr((seed, *about)))  # noqa: S311  # spreads load, keeps no secret


def describe(cadence: Cadence, zone: tzinfo) -> str:
    """A cadence in words."""
    if cadence.after_end is not None:
        return describe_after_end(cadence.after_end)
    if cadence.cron is not None:
        return f"cron {cadence.cron}, {zone}"
    often = "once" if cadence.times_a_day == 1 else f"{cadence.times_a_day} times"
    return f"{often} a day, from {cadence.first} on, {zone}"


def describe_after_end(after: AfterEnd) -> str:
    """A time after the end of the last run, in words."""
    span = f"{after.min:g}" if after.min == after.max else f"{after.min:g} to {after.max:g}"
    return f"{span} {after.unit} after the end of the last run"


def clock(at: float, zone: tzinfo) -> str:
    """A moment as people of a time zone write it."""
    return f"{datetime.fromtimestamp(at, tz=zone):%Y-%m-%d %H:%M %Z}"
