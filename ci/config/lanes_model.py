"""The settings of lanes: what runs again and again, when, and how often it is tried again."""

from __future__ import annotations

import calendar
import re
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, Field, StringConstraints, model_validator

from ci.config.section import Seconds, Section
from ci.config.stage_model import TierName

LANE_NAME = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
LaneName = Annotated[str, StringConstraints(pattern=LANE_NAME)]
Words = list[Annotated[str, StringConstraints(min_length=1, max_length=4096)]]
_CRON_FIELDS = 5
# Where crons differ (names, `7`, `L`, `#`, two kinds of days), a line is refused, or written in numbers: the
# times of a lane are the same here, at GitHub and at Jenkins.
_FIELD = re.compile(r"(\*(/\d+)?|\d+(-\d+(/\d+)?)?)(,(\*(/\d+)?|\d+(-\d+(/\d+)?)?))*")
_NUMBERS = {name.lower(): str(number) for number, name in enumerate(calendar.month_abbr) if name} | {
    name.lower(): str((number + 1) % 7) for number, name in enumerate(calendar.day_abbr)
}
_DAY, _WEEKDAY = 2, 4
# What a variable may be called; a file of secrets has no others.
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


def _cron(text: str) -> str:
    fields = [
        re.sub("[a-z]+", lambda found: _NUMBERS.get(found[0], found[0]), one) for one in text.lower().split()
    ]
    try:
        if len(fields) != _CRON_FIELDS:
            raise CronSimError(f"it has {len(fields)}")
        if next(CronSim(" ".join(fields), datetime(2026, 1, 1, tzinfo=UTC)), None) is None:
            raise CronSimError("its time never comes")
    except CronSimError as error:
        raise ValueError(f"is no cron expression of five fields: {error}") from error
    odd = next((one for one in fields if not _FIELD.fullmatch(one)), "7" if "7" in fields[_WEEKDAY] else "")
    if odd:
        raise ValueError(f"has {odd}, which crons read differently; write numbers, and Sunday as 0")
    if fields[_DAY] != "*" and fields[_WEEKDAY] != "*":
        raise ValueError(
            "names days of the month and of the week, which crons read differently; name one kind"
        )
    return " ".join(fields)


def _zone(name: str) -> str:
    try:
        zone_named(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{name!r} is no time zone here; such as Europe/Berlin or UTC") from None
    return name


def zone_named(name: str) -> tzinfo:
    """A time zone; UTC is there also where no database of time zones is."""
    return UTC if name in {"UTC", "Etc/UTC"} else ZoneInfo(name)


def _one_of(section: Section, *names: str) -> None:
    """Refuse a section in which not exactly one of some keys is set."""
    said = [name for name in names if getattr(section, name) is not None]
    if len(said) != 1:
        raise ValueError(f"needs exactly one of {', '.join(names)}; it has {', '.join(said) or 'none'}")


class AfterEnd(Section):
    """A time after the end of the last run, between two bounds, so that lanes do not stay in step."""

    min: float = Field(ge=0, description="at least so many hours or days after the end of the last run")
    max: float = Field(gt=0, le=366, description="at most so many")
    unit: Literal["hours", "days"] = Field(default="hours", description="hours or days")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min ({self.min:g}) is above max ({self.max:g})")
        return self


class Cadence(Section):
    """When a lane runs: exactly one of `cron`, `times_a_day` and `after_end`."""

    cron: Annotated[str, AfterValidator(_cron)] | None = Field(
        default=None, description="five fields, as crontab has them"
    )
    times_a_day: int | None = Field(
        default=None, ge=1, le=24, description="so many times a day, evenly spread from `first` on"
    )
    first: Annotated[str, StringConstraints(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")] = Field(
        default="00:17", description="HH:MM of the first of these"
    )
    after_end: AfterEnd | None = Field(
        default=None, description="after the end of the last run; the first time at once"
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        _one_of(self, "cron", "times_a_day", "after_end")
        return self


class MainJob(Section):
    """The main job: a stage of PyTorch's tests."""

    stage: int | None = Field(default=None, ge=0, description="row of the roll-out; none: the one in force")
    arguments: Words = Field(default_factory=list, description="more words for `nox -s pytorch --`")


class SessionJob(Section):
    """Any nox session."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")] = Field(
        description="of the session"
    )
    noxfile: Path | None = Field(default=None, description="file it is in; none: the toolkit's noxfile.py")
    arguments: Words = Field(default_factory=list, description="words behind `--`")


class ClusterJob(Section):
    """A job on Kubernetes or OpenShift, as `spyre-ci job submit --collect` runs it."""

    spec: Path = Field(description="file of the job's spec")
    arguments: Words = Field(default_factory=list, description="more words for `spyre-ci job submit`")


class Work(Section):
    """What a lane runs: exactly one of `pytorch`, `session`, `job` and `command`."""

    pytorch: MainJob | None = Field(default=None, description="the main job")
    session: SessionJob | None = Field(default=None, description="a nox session")
    job: ClusterJob | None = Field(default=None, description="a job on a cluster")
    command: Words | None = Field(default=None, min_length=1, description="a program and its arguments")

    @model_validator(mode="after")
    def _one(self) -> Self:
        _one_of(self, "pytorch", "session", "job", "command")
        return self


class Retries(Section):
    """How often and when a run that did not come to an answer is tried again; a failed test is an answer."""

    most: int = Field(default=2, ge=0, le=20, description="tries after the first")
    first_s: Seconds = Field(default=60, description="seconds until the first of them")
    factor: float = Field(default=2, ge=1, le=10, description="by which each wait is longer than the last")
    longest_s: Seconds = Field(default=3600, description="seconds no wait goes beyond")
    jitter: float = Field(
        default=0.1, ge=0, le=1, description="share of a wait that is drawn at random and added to it"
    )


class BegunBy(Section):
    """The CI that begins a lane by a clock of its own: exactly one of `github` and `jenkins`."""

    github: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]+\.ya?ml$")] | None = Field(
        default=None, description="file of its workflow in .github/workflows"
    )
    jenkins: (
        Annotated[str, StringConstraints(pattern=r"^[^/\s]([^\r\n]*[^/\s])?$", max_length=500)] | None
    ) = Field(default=None, description="path of its job, such as spyre/nightly-pinned")

    @model_validator(mode="after")
    def _one(self) -> Self:
        _one_of(self, "github", "jenkins")
        return self


class Lane(Section):
    """A recurring run."""

    enabled: bool = Field(default=True, description="whether it runs")
    in_stages: list[Annotated[int, Field(ge=0)]] = Field(
        default_factory=list, description="it runs only while one of these stages is in force; none: always"
    )
    run: Work = Field(description="what it runs")
    cadence: Cadence = Field(description="when")
    begun_by: BegunBy | None = Field(
        default=None,
        description="the CI that starts it, by the schedule that `spyre-ci lanes export` writes; none: the "
        "worker (`spyre-ci lanes run`)",
    )
    time_limit_s: Annotated[float, Field(gt=0, le=31 * 24 * 3600)] = Field(
        default=6 * 3600, description="seconds a run may take"
    )
    retries: Retries = Field(default_factory=Retries)
    seed: int = Field(default=0, ge=0, lt=2**32, description="of what is drawn at random for it")
    tier: TierName = Field(default="nightly", description="whose limits apply: pr, nightly or weekly")
    secrets: list[VariableName] = Field(
        default_factory=list, description="variables it needs, from the environment or the file of secrets"
    )


class LaneWorker(Section):
    """The worker of lanes, for places without a CI of their own."""

    poll_s: Seconds = Field(default=15, description="seconds between two looks at the clock and at runs")
    secrets: Path = Field(default=Path(".env"), description="file of secrets, NAME=value a line")
    time_zone: Annotated[str, AfterValidator(_zone)] = Field(
        default="UTC", description="in which cron and times of day are read"
    )
    late_s: Seconds = Field(
        default=3600, description="seconds after its time within which a missed run is still started"
    )
    at_once: int = Field(default=8, ge=1, le=256, description="runs at the same time, over all lanes")
    ending_s: Seconds = Field(
        default=120, description="seconds a run has to end by itself when the worker is stopped"
    )
    keep_days: int = Field(default=30, ge=8, description="after which a run is forgotten, with its folder")

    @model_validator(mode="after")
    def _in_time(self) -> Self:
        if self.late_s < 2 * self.poll_s:
            raise ValueError(
                f"late_s ({self.late_s:g}) is below two times poll_s ({self.poll_s:g}): times are too late "
                "before they are seen; raise late_s or lower poll_s"
            )
        return self

    @property
    def zone(self) -> tzinfo:
        """The time zone that is named."""
        return zone_named(self.time_zone)
