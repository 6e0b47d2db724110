"""The lanes that a CI begins, as the schedule of a GitHub workflow or the triggers of Jenkins' jobs. Pure.

GitHub reads a line in UTC, or in the zone of its documented key `timezone`; Jenkins in that of a line `TZ=`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cronsim import CronSim

from ci.config.lanes_model import Lane
from ci.core.errors import BadFileError, SettingsError
from ci.lanes.cadence import cron_lines, describe_after_end
from ci.lanes.decide import off

# The shortest time that GitHub leaves between two runs of a schedule.
GITHUB_MINUTES = 5
UTC_NAME = "UTC"
Schedule = list[dict[str, str]]


def schedules(lanes: Mapping[str, Lane], *, time_zone: str, stage: int) -> dict[str, dict[str, Schedule]]:
    """The entries of `on.schedule` by workflow and lane; of a workflow that nothing begins in a stage, none.

    Args:
        lanes: the settings, by name.
        time_zone: in which their times are read.
        stage: the one in force, as a workflow knows none.

    Raises:
        SettingsError: GitHub cannot say the cadence of one.
    """
    zone = {} if time_zone == UTC_NAME else {"timezone": time_zone}
    found: dict[str, dict[str, Schedule]] = {}
    for name, lane in lanes.items():
        if lane.begun_by is not None and lane.begun_by.github is not None:
            entries = found.setdefault(lane.begun_by.github, {})
            lines = _lines(name, lane)
            for line in lines:
                _check_gap(line, f"lanes.{name}.cadence")
            if not off(lane, stage):
                entries[name] = [{"cron": line, **zone} for line in lines]
    return found


def triggers(lanes: Mapping[str, Lane], *, time_zone: str) -> dict[str, Any]:
    """The triggers of Jenkins' jobs, with the stages they are for: the jobs' script takes those in force.

    Args:
        lanes: the settings, by name.
        time_zone: in which their times are read; a job's first line alone may name one.

    Raises:
        SettingsError: no cron line can say the cadence of one.
    """
    rows = [
        {
            "lane": name,
            "job": lane.begun_by.jenkins,
            "in_stages": list(lane.in_stages),
            "cron": _lines(name, lane),
        }
        for name, lane in lanes.items()
        if lane.enabled and lane.begun_by is not None and lane.begun_by.jenkins is not None
    ]
    return {"time_zone": time_zone, "triggers": rows}


def as_yaml(workflow: str, entries: Mapping[str, Schedule]) -> str:
    """What stands in a workflow's file, below its name."""
    lines = [f"# .github/workflows/{workflow}", "on:", "  schedule:"]
    for name, schedule in entries.items():
        lines.append(f"    # lane {name}")
        for entry in schedule:
            lines.append(f'    - cron: "{entry["cron"]}"')
            lines += [f'      timezone: "{entry["timezone"]}"'] if "timezone" in entry else []
    return "\n".join(lines)


def schedule_of(content: Any, where: Path | str = "") -> Schedule:
    """The entries of `on.schedule` in a workflow's file, as YAML reads it.

    Raises:
        BadFileError: they are none; `where` names the file.
    """
    # YAML 1.1 reads a bare `on` as true.
    events = content.get("on", content.get(True)) if isinstance(content, dict) else None
    found = (events.get("schedule") if isinstance(events, dict) else None) or []
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise BadFileError(
            f"on.schedule is not a list of entries: {found!r:.80}",
            where=where,
            remedy="use the output of `spyre-ci lanes export github`",
        )
    return [{key: " ".join(str(value).split()) for key, value in entry.items()} for entry in found]


def _lines(name: str, lane: Lane) -> list[str]:
    if lane.cadence.after_end is not None:
        raise SettingsError(
            f"is due {describe_after_end(lane.cadence.after_end)}, which cron cannot express",
            where=f"lanes.{name}.cadence",
            remedy="give it `cron` or `times_a_day`, or let the worker start it (without `begun_by`)",
        )
    return list(cron_lines(lane.cadence))


def _check_gap(line: str, where: str) -> None:
    """Refuse a line with two times of a day that are closer than GitHub begins anything."""
    parsed = CronSim(line, datetime(2026, 1, 1, tzinfo=UTC))
    times = sorted(60 * int(hour) + int(minute) for hour in parsed.hours for minute in parsed.minutes)
    gap = min(later - one for one, later in itertools.pairwise([*times, times[0] + 24 * 60]))
    if gap < GITHUB_MINUTES:
        raise SettingsError(
            f"cron {line} has times {gap} min apart, and GitHub starts nothing more often than every "
            f"{GITHUB_MINUTES} min",
            where=where,
            remedy="make it due less often, or let the worker start the lane (without `begun_by`)",
        )
