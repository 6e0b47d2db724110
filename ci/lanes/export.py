"""The cadence of lanes in the words of CIs that begin them: GitHub's schedules and Jenkins' triggers. Pure.

A time of a lane is in a line of cron, with the minute that the settings say. GitHub reads it in UTC, or in
the zone that its documented key `timezone` names; Jenkins in the zone of a first line `TZ=`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ci.config.lanes_model import Lane
from ci.core.errors import EXIT_TEST_FAILED, SettingsError, SpyreCiError
from ci.lanes.cadence import crons, said_after_end
from ci.lanes.dialects import for_github, for_jenkins
from ci.lanes.turn import off
from ci.pipeline.event import at

KIND = "triggers"
UTC_NAME = "UTC"


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
