"""The summary: how each back end and each of its lanes does; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ci.hud.server.pages.words import Mark, conclusion_mark
from ci.hud.server.queries.jobs import Job

STRIP = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One job in a strip of jobs."""

    number: int
    mark: Mark
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A lane of a back end.

    Attributes:
        repo: the back end.
        name: of the lane.
        latest: its newest job.
        strip: its newest jobs, the oldest first.
        successes: of its completed jobs.
        completed: how many of its jobs have completed.
        seconds: the median duration of the completed; None where there is none.
        last_green: when its newest success started; empty where there is none.
    """

    repo: str
    name: str
    latest: Job
    strip: Sequence[Cell]
    successes: int
    completed: int
    seconds: float | None
    last_green: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackEnd:
    """A repository that reports, with its lanes: first those whose newest job is not green."""

    repo: str
    lanes: Sequence[Lane]
    jobs: int
    successes: int
    completed: int
    pull_requests: int


def back_ends(jobs: Sequence[Job]) -> list[BackEnd]:
    """The back ends of jobs, those first where something is not green.

    Args:
        jobs: the newest first, superseded attempts left out.
    """
    by_repo: dict[str, dict[str, list[Job]]] = {}
    for job in jobs:
        by_repo.setdefault(job.repo, {}).setdefault(job.lane, []).append(job)
    made = [_back_end(repo, lanes) for repo, lanes in by_repo.items()]
    return sorted(made, key=lambda one: (all(lane.latest.green for lane in one.lanes), one.repo))


def _back_end(repo: str, by_lane: dict[str, list[Job]]) -> BackEnd:
    lanes = [_lane(repo, name, jobs) for name, jobs in by_lane.items()]
    return BackEnd(
        repo=repo,
        lanes=sorted(lanes, key=lambda lane: (lane.latest.green, lane.name)),
        jobs=sum(len(jobs) for jobs in by_lane.values()),
        successes=sum(lane.successes for lane in lanes),
        completed=sum(lane.completed for lane in lanes),
        pull_requests=len({job.pr for jobs in by_lane.values() for job in jobs if job.pr}),
    )


def _lane(repo: str, name: str, jobs: Sequence[Job]) -> Lane:
    completed = [job for job in jobs if job.done]
    times = [job.duration_s for job in completed if job.completed_at]
    return Lane(
        repo=repo,
        name=name,
        latest=jobs[0],
        strip=[cell(job) for job in reversed(jobs[:STRIP])],
        successes=sum(job.green for job in completed),
        completed=len(completed),
        seconds=median(times) if times else None,
        last_green=next((job.started_at for job in jobs if job.green), ""),
    )


def cell(job: Job) -> Cell:
    """A job as a cell of a strip."""
    mark = conclusion_mark(job.status, job.conclusion)
    name = job.run or f"{job.workflow} / {job.job_name}"
    counts = f", {job.failed:,} of {job.total:,} tests failed" if job.total else ""
    return Cell(number=job.id, mark=mark, title=f"{mark.word}: {name[:200]}, {job.started_at[:16]}{counts}")
