"""Durations and time-to-signal of lanes; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ci.hud.server.queries.jobs import Job


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
        jobs: the jobs, the oldest first.
        duration: from start to end; None where no job told both.
        queue: from the dispatch to the start, of pull requests.
        signal: from the start to the first failure where a job failed and says when, else to the end.
    """

    repo: str
    lane: str
    jobs: Sequence[Job]
    duration: Spread | None
    queue: Spread | None
    signal: Spread | None


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
    by_lane: dict[tuple[str, str], list[Job]] = {}
    for job in jobs:
        if job.done:
            by_lane.setdefault((job.repo, job.lane), []).append(job)
    return [
        LaneTimes(
            repo=repo,
            lane=lane,
            jobs=found[::-1],
            duration=spread(max(job.duration_s, 0.0) for job in found if job.completed_at),
            queue=spread(job.queue_s for job in found if job.queue_s is not None),
            signal=spread(seconds for job in found if (seconds := signal_seconds(job)) is not None),
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
