"""Cron lines as GitHub and Jenkins read them, which is not all as a crontab does; what differs is refused."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection
from datetime import UTC, datetime

from cronsim import CronSim

from ci.core.errors import SettingsError

# What both read alike: a star with a step, numbers, ranges with a step, and lists of these.
_PLAIN = re.compile(r"(\*(/\d+)?|\d+(-\d+(/\d+)?)?)(,(\*(/\d+)?|\d+(-\d+(/\d+)?)?))*")
# The shortest time that GitHub leaves between two runs of a schedule.
GITHUB_MINUTES = 5
_HOUR, _DAY = 60, 24
_DAYS = 2, 4
_OTHERWISE = "name only one of them, or let the worker begin the lane (`begun_by: worker`)"


def for_github(cron: str, where: str) -> str:
    """A cron line as GitHub takes it.

    Args:
        cron: as the settings have it.
        where: of the settings it stands.

    Raises:
        SettingsError: GitHub would read it otherwise, or does not run so often.
    """
    line = _numbers(cron, where)
    days, weekdays = (cron.split()[field] for field in _DAYS)
    if "*" not in {days, weekdays} and "*" in {days[0], weekdays[0]}:
        raise SettingsError(
            f"cron {cron} has a step over all days beside another day, which crons read differently",
            where=where,
            remedy=_OTHERWISE,
        )
    gap = _shortest_gap(cron)
    if gap < GITHUB_MINUTES:
        raise SettingsError(
            f"cron {cron} has times {gap} min apart, and GitHub begins nothing more often than every "
            f"{GITHUB_MINUTES} min",
            where=where,
            remedy="let it be due less often, or let the worker begin the lane (`begun_by: worker`)",
        )
    return line


def for_jenkins(cron: str, where: str) -> str:
    """A cron line as Jenkins takes it, without its `H`: the minutes are those of the settings.

    Args:
        cron: as the settings have it.
        where: of the settings it stands.

    Raises:
        SettingsError: Jenkins would read it otherwise.
    """
    days, weekdays = (cron.split()[field] for field in _DAYS)
    if "*" not in {days[0], weekdays[0]}:
        raise SettingsError(
            f"cron {cron} names days of the month and of the week: cron takes a day that is either, Jenkins "
            "one that is both",
            where=where,
            remedy=_OTHERWISE,
        )
    return _numbers(cron, where)


def _numbers(cron: str, where: str) -> str:
    """A line whose names of months and days are numbers, as Jenkins knows no others, and Sunday is 0."""
    parsed = CronSim(cron, datetime(2026, 1, 1, tzinfo=UTC))
    values: tuple[Collection[int | tuple[int, int]], ...] = (
        parsed.minutes,
        parsed.hours,
        parsed.days,
        parsed.months,
        parsed.weekdays,
    )
    fields = cron.split()
    for place, (field, found) in enumerate(zip(fields, values, strict=True)):
        last_day_or_nth = [one for one in found if not isinstance(one, int) or one < 0]
        if last_day_or_nth:
            raise SettingsError(
                f"cron {cron} has {field}, which neither GitHub nor Jenkins knows",
                where=where,
                remedy="write numbers, or let the worker begin the lane (`begun_by: worker`)",
            )
        weekday = place == max(_DAYS)
        if not _PLAIN.fullmatch(field) or (weekday and "7" in field):
            numbers = {one for one in found if isinstance(one, int)}
            fields[place] = ",".join(
                str(one) for one in sorted({one % 7 for one in numbers} if weekday else numbers)
            )
    return " ".join(fields)


def _shortest_gap(cron: str) -> int:
    """Minutes between the two times of a day that are closest."""
    parsed = CronSim(cron, datetime(2026, 1, 1, tzinfo=UTC))
    times = sorted(hour * _HOUR + minute for hour in parsed.hours for minute in parsed.minutes)
    return min(later - one for one, later in itertools.pairwise([*times, times[0] + _DAY * _HOUR]))
