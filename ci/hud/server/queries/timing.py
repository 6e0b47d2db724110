"""Durations and time-to-signal of lanes, and what takes longer than it used to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from ci.hud.server.queries.jobs import Job
from ci.hud.server.queries.rows import grouped, listed
from ci.report.compare.times import usual_s
from ci.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How seconds are spread: how many were measured, the median, the 90th percentile and the most."""

    number: int
    median: float
    p90: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTimes:
    """The times of a lane's completed jobs.

    Attributes:
        repo: the back end.
        lane: its lane.
        jobs: how many there are.
        duration: from start to end; None where no job told both.
        queue: from the dispatch to the start, of pull requests.
        signal: from the start to the first failure where a job failed and says when, else to the end.
        timed: the jobs, the oldest first; not in answers.
    """

    repo: str
    lane: str
    jobs: int
    duration: Spread | None
    queue: Spread | None
    signal: Spread | None
    timed: Annotated[Sequence[Job], Field(exclude=True)]


def signal_seconds(job: Job) -> float | None:
    """How long after its start a job could say whether it is good; None where it told no end."""
    if not job.completed_at or not job.done:
        return None
    whole = max(job.duration_s, 0.0)
    if job.first_failure_s is not None and not job.green:
        return min(job.first_failure_s, whole)
    return whole


def lane_times(jobs: Iterable[Job]) -> list[LaneTimes]:
    """The times by back end and lane, in the order of their names.

    Args:
        jobs: the newest first, superseded attempts left out.
    """
    by_lane = grouped((job for job in jobs if job.done), lambda job: (job.repo, job.lane))
    return [
        LaneTimes(
            repo=repo,
            lane=lane,
            jobs=len(found),
            duration=spread(max(job.duration_s, 0.0) for job in found if job.completed_at),
            queue=spread(job.queue_s for job in found if job.queue_s is not None),
            signal=spread(seconds for job in found if (seconds := signal_seconds(job)) is not None),
            timed=found[::-1],
        )
        for (repo, lane), found in sorted(by_lane.items())
    ]


def spread(seconds: Iterable[float]) -> Spread | None:
    """How seconds are spread; None where there are none. Percentiles are of the nearest rank."""
    ordered = sorted(seconds)
    if not ordered:
        return None
    return Spread(number=len(ordered), median=rank(ordered, 0.5), p90=rank(ordered, 0.9), most=ordered[-1])


def rank(ordered: Sequence[float], share: float) -> float:
    """The value that `share` of them do not exceed, by nearest rank."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def slower_lane(lane: LaneTimes) -> float | None:
    """The usual seconds of a lane whose newest job took longer than its jobs of the same stage; else None."""
    timed = [job for job in lane.timed if job.completed_at]
    if not timed:
        return None
    *before, newest = timed
    alike = [job for job in before if (job.stage, job.percent) == (newest.stage, newest.percent)]
    return usual_s(newest.duration_s, [job.duration_s for job in alike])


def slower_tests(database: Database, now: Mapping[str, float], before: Sequence[Job]) -> dict[str, float]:
    """By key of a test its usual seconds, of those that now take longer than noise explains.

    Args:
        database: what is asked.
        now: seconds by key, of those that are asked about.
        before: the jobs that they are compared with.
    """
    if not now or not before:
        return {}
    rows = database.tuples(
        "SELECT test_key, time, workflow_id, workflow_run_attempt, job_id FROM settled_test_run "  # noqa: S608
        f"WHERE test_key IN ({listed(map(int, now))}) "
        f"AND workflow_id IN ({listed(job.workflow_id for job in before)}) AND verdict = 'passed'"
    )
    return _slower(now, before, ((str(key), took, tuple(job)) for key, took, *job in rows))


def slower_files(database: Database, now: Mapping[str, float], before: Sequence[Job]) -> dict[str, float]:
    """By file the usual seconds of its tests, as `slower_tests`."""
    if not now or not before:
        return {}
    rows = database.tuples(
        "SELECT file, sum(time), workflow_id, workflow_run_attempt, job_id FROM test_run_summary "  # noqa: S608
        f"WHERE workflow_id IN ({listed(job.workflow_id for job in before)}) "
        "GROUP BY workflow_id, workflow_run_attempt, job_id, file"
    )
    return _slower(now, before, ((file, took, tuple(job)) for file, took, *job in rows))


def _slower(
    now: Mapping[str, float], before: Sequence[Job], rows: Iterable[tuple[str, float, tuple[int, ...]]]
) -> dict[str, float]:
    jobs = {job.rows_of for job in before}
    past = grouped((row for row in rows if row[2] in jobs and row[0] in now), lambda row: row[0])
    found = {name: usual_s(now[name], [took for _, took, _ in own]) for name, own in past.items()}
    return {name: usual for name, usual in found.items() if usual is not None}
