"""The cadence of lanes in the words of CIs that begin them: GitHub's schedules and Jenkins' triggers. Pure.

A time of a lane is in a line of cron, with the minute that the settings say. GitHub reads it in UTC, or in
the zone that its documented key `timezone` names; Jenkins in the zone of a first line `TZ=`. What these read
otherwise than a crontab does is refused.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cronsim import CronSim

from ci.config.lanes_model import Lane
from ci.core.errors import EXIT_TEST_FAILED, SettingsError, SpyreCiError
from ci.lanes.cadence import crons, said_after_end
from ci.lanes.turn import off
from ci.pipeline.event import at

# What both read alike: a star with a step, numbers, ranges with a step, and lists of these.
_PLAIN = re.compile(r"(\*(/\d+)?|\d+(-\d+(/\d+)?)?)(,(\*(/\d+)?|\d+(-\d+(/\d+)?)?))*")
# The shortest time that GitHub leaves between two runs of a schedule.
GITHUB_MINUTES = 5
_HOUR, _DAY = 60, 24
_DAYS = 2, 4
_OTHERWISE = "name only one of them, or let the worker begin the lane (`begun_by: worker`)"
KIND = "triggers"
UTC_NAME = "UTC"


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


class TriggersDifferError(SpyreCiError):
    """Triggers of a CI that are not those of the settings."""

    exit_code = EXIT_TEST_FAILED


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Schedule:
    """An entry of a workflow's `on.schedule`."""

    cron: str
    timezone: str = UTC_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A workflow and when it runs.

    Attributes:
        repository: owner/name.
        file: in .github/workflows.
        lanes: the entries, by the lane that they are of.
    """

    repository: str
    file: str
    lanes: Mapping[str, Sequence[Schedule]]

    @property
    def schedules(self) -> list[Schedule]:
        """All of them, each once, in order."""
        return sorted({one for entries in self.lanes.values() for one in entries})


def workflows(lanes: Mapping[str, Lane], *, time_zone: str, stage: int) -> list[Workflow]:
    """The workflows that lanes name, with the lanes that they begin themselves in a stage: of some none.

    Args:
        lanes: the settings, by name.
        time_zone: in which their times are read.
        stage: the one in force, as a workflow knows none.

    Raises:
        SettingsError: GitHub cannot say the cadence of one.
    """
    found: dict[tuple[str, str], dict[str, list[Schedule]]] = {
        (one.where.github.repository, one.where.github.workflow): {}
        for one in lanes.values()
        if one.where.github is not None
    }
    for name, lane in _of_ci(lanes):
        if lane.where.github is None:
            continue
        place = found[lane.where.github.repository, lane.where.github.workflow]
        entries = [
            Schedule(cron=for_github(cron, _where(name)), timezone=time_zone) for cron in _lines(name, lane)
        ]
        if not off(lane, stage):
            place[name] = entries
    return [
        Workflow(repository=repository, file=file, lanes=entries)
        for (repository, file), entries in found.items()
    ]


def triggers(lanes: Mapping[str, Lane], *, time_zone: str) -> dict[str, Any]:
    """The triggers of Jenkins' jobs, with the stages they are for: the script of jobs takes those in force.

    The time zone stands once, as a job has one list of lines, and only its first line may name one.

    Args:
        lanes: the settings, by name.
        time_zone: in which their times are read.

    Raises:
        SettingsError: Jenkins cannot say the cadence of one.
    """
    rows = [
        {
            "lane": name,
            "job": lane.where.jenkins.job,
            "in_stages": list(lane.in_stages),
            "cron": [for_jenkins(cron, _where(name)) for cron in _lines(name, lane)],
        }
        for name, lane in _of_ci(lanes)
        if lane.where.jenkins is not None
    ]
    return {"time_zone": time_zone, "triggers": rows}


def left_out(lanes: Mapping[str, Lane], stage: int) -> dict[str, str]:
    """Why each of the others is in no file of a CI, or in none now."""
    found = {}
    for name, lane in lanes.items():
        if lane.enabled and lane.begun_by == "worker":
            found[name] = "is begun by the worker"
        elif (reason := off(lane, stage)) and (not lane.enabled or lane.where.github is not None):
            found[name] = reason
    return found


def as_yaml(workflow: Workflow) -> str:
    """What stands in the workflow's file, below its name."""
    lines = [f"# {workflow.repository}: .github/workflows/{workflow.file}", "on:", "  schedule:"]
    for name, entries in workflow.lanes.items():
        lines.append(f"    # lane {name}")
        for one in entries:
            lines.append(f'    - cron: "{one.cron}"')
            if one.timezone != UTC_NAME:
                lines.append(f'      timezone: "{one.timezone}"')
    return "\n".join(lines)


def schedules_of(content: Any) -> list[Schedule]:
    """The schedules of a workflow's file, as YAML reads it."""
    # YAML 1.1 reads a bare `on` as true.
    events = content.get("on", content.get(True)) if isinstance(content, dict) else None
    entries = at(events, "schedule")
    rows = [one for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []
    return sorted(
        Schedule(cron=" ".join(str(one.get("cron", "")).split()), timezone=str(one.get("timezone", UTC_NAME)))
        for one in rows
    )


def _of_ci(lanes: Mapping[str, Lane]) -> Iterator[tuple[str, Lane]]:
    for name, lane in lanes.items():
        if lane.enabled and lane.begun_by == "ci":
            kind = lane.where.kind
            if kind not in {"github", "jenkins"}:
                raise SettingsError(
                    f"is begun by its CI, and its `where` is {kind}, which begins nothing by itself",
                    where=f"lanes.{name}",
                    remedy="name `jenkins` or `github`, or let the worker begin it (`begun_by: worker`)",
                )
            yield name, lane


def _lines(name: str, lane: Lane) -> tuple[str, ...]:
    """The lines of its cadence."""
    if lane.cadence.after_end is not None:
        raise SettingsError(
            f"is due {said_after_end(lane.cadence.after_end)}, which no cron can say",
            where=_where(name),
            remedy="give it `cron` or `times_a_day`, or let the worker begin it (`begun_by: worker`)",
        )
    return crons(lane.cadence)


def _where(name: str) -> str:
    return f"lanes.{name}.cadence"
