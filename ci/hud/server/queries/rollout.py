"""How far the roll-out is: the share of the tests in scope that is selected, runs and passes; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ci.hud.server.queries.jobs import Job
from ci.hud.server.queries.rows import grouped


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Of what is in scope: selected, run and passed, in tests or in seconds; None where a run did not say."""

    in_scope: float
    selected: float | None
    ran: float | None
    passed: float | None

    def of(self, name: str) -> float | None:
        """A part's share, 0 to 1."""
        part = getattr(self, name)
        return None if part is None else part / self.in_scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A run's place in the roll-out."""

    run: int
    started_at: str
    stage: int | None
    percent: float | None
    tests: Share | None
    seconds: Share | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """A stage a lane went through: when its first run of the window was, how many, and the last of them."""

    stage: int | None
    percent: float | None
    since: str
    runs: int
    last: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRollout:
    """The roll-out of one lane of one back end; steps in the order of time, stages too, the newest last."""

    repo: str
    lane: str
    steps: Sequence[Step]
    stages: Sequence[StageRow]


def rollout(jobs: Iterable[Job]) -> list[LaneRollout]:
    """The roll-out of every lane that says how many tests are in scope, those furthest on first.

    Args:
        jobs: the newest first, superseded attempts left out; only completed ones count.
    """
    told = [job for job in jobs if job.done and (job.in_scope or job.in_scope_s)]
    made = [
        _lane(repo, lane, [_step(job) for job in reversed(own)])
        for (repo, lane), own in grouped(told, lambda job: (job.repo, job.lane)).items()
    ]
    return sorted(made, key=lambda one: (-(one.steps[-1].percent or 0.0), one.repo, one.lane))


def _step(job: Job) -> Step:
    return Step(
        run=job.id,
        started_at=job.started_at,
        stage=job.stage,
        percent=job.percent,
        tests=Share(in_scope=job.in_scope, selected=job.selected, ran=job.ran, passed=job.ran_passed)
        if job.in_scope
        else None,
        seconds=Share(in_scope=job.in_scope_s, selected=job.selected_s, ran=job.ran_s, passed=job.passed_s)
        if job.in_scope_s
        else None,
    )


def _lane(repo: str, lane: str, steps: Sequence[Step]) -> LaneRollout:
    by_stage = grouped(steps, lambda step: (step.stage, step.percent))
    stages = [
        StageRow(stage=stage, percent=percent, since=own[0].started_at, runs=len(own), last=own[-1])
        for (stage, percent), own in by_stage.items()
    ]
    return LaneRollout(repo=repo, lane=lane, steps=steps, stages=stages)
