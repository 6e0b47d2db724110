"""The numbers a back end is judged by: flaky share, pass rate, cycle time of a commit, outages; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from ci.hud.callback import stored_epoch
from ci.hud.server.queries.by_day import DayVerdict
from ci.hud.server.queries.jobs import Job
from ci.hud.server.queries.outages import LIMIT_S, Outage, outages
from ci.hud.server.queries.timing import Spread, spread
from ci.record.verdict import GOOD_AT_LAST, PROBLEMS, RAN
from ci.report.flakes import LIMIT_PERCENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """Seven days from a Monday (UTC).

    Attributes:
        monday: its first day.
        jobs: completed jobs, superseded attempts left out.
        successes: of those.
        ran: outcomes of tests: passed, failed, flaky, failed or passed against expectation.
        flaky: of those.
        good: tests that did what was declared: passed, flaky, xfailed, xpassed.
        bad: tests that did not, whoever's fault: failed, hardware, infrastructure, not run.
    """

    monday: str
    jobs: int
    successes: int
    ran: int
    flaky: int
    good: int
    bad: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The judgement of a window.

    Attributes:
        weeks: in order.
        total: all of them as one; its `monday` is empty.
        flaky_limit: the share of outcomes, 0 to 1, that flaky ones must stay below.
        flaky_ok: whether they do; None where no test ran.
        cycle: of each commit, the seconds from its first job's dispatch (or start) to its last job's end.
        outages: the newest first.
        recovery: of the outages that ended.
        recovery_limit_s: what none should exceed.
        recovery_ok: whether none does, those that go on counted until now.
    """

    weeks: Sequence[Week]
    total: Week
    flaky_limit: float
    flaky_ok: bool | None
    cycle: Spread | None
    outages: Sequence[Outage]
    recovery: Spread | None
    recovery_limit_s: float
    recovery_ok: bool


def metrics(jobs: Sequence[Job], verdicts: Sequence[DayVerdict], now: float) -> Metrics:
    """The metrics of jobs, superseded attempts left out, and of their tests."""
    mondays = sorted({_monday(job.started_at[:10]) for job in jobs} | {_monday(one.day) for one in verdicts})
    by_week: dict[str, list[Job]] = {}
    tests_of: dict[str, list[DayVerdict]] = {}
    for job in jobs:
        by_week.setdefault(_monday(job.started_at[:10]), []).append(job)
    for one in verdicts:
        tests_of.setdefault(_monday(one.day), []).append(one)
    total = _week("", jobs, verdicts)
    found = outages(jobs, now)
    return Metrics(
        weeks=[_week(monday, by_week.get(monday, ()), tests_of.get(monday, ())) for monday in mondays],
        total=total,
        flaky_limit=LIMIT_PERCENT / 100,
        flaky_ok=(not total.flaky or 100 * total.flaky < LIMIT_PERCENT * total.ran) if total.ran else None,
        cycle=spread(cycle_seconds(jobs).values()),
        outages=found,
        recovery=spread(one.seconds for one in found if one.ended),
        recovery_limit_s=LIMIT_S,
        recovery_ok=not any(one.long for one in found),
    )


def cycle_seconds(jobs: Iterable[Job]) -> Mapping[tuple[str, str], float]:
    """By back end and commit whose jobs all completed: from the first dispatch or start to the last end."""
    by_commit: dict[tuple[str, str], list[Job]] = {}
    for job in jobs:
        by_commit.setdefault((job.repo, job.sha), []).append(job)
    return {
        key: max(0.0, _last_end(group) - _first_begin(group))
        for key, group in by_commit.items()
        if all(job.done and job.completed_at for job in group)
    }


def _week(monday: str, jobs: Sequence[Job], verdicts: Sequence[DayVerdict]) -> Week:
    completed = [job for job in jobs if job.done]

    def tests(kinds: frozenset[str]) -> int:
        return sum(one.tests for one in verdicts if one.verdict in kinds)

    return Week(
        monday=monday,
        jobs=len(completed),
        successes=sum(job.green for job in completed),
        ran=tests(RAN),
        flaky=tests(frozenset({"flaky"})),
        good=tests(GOOD_AT_LAST),
        bad=tests(frozenset(PROBLEMS)),
    )


def _monday(day: str) -> str:
    when = date.fromisoformat(day)
    return (when - timedelta(days=when.weekday())).isoformat()


def _first_begin(group: Iterable[Job]) -> float:
    return min(stored_epoch(job.started_at) - (job.queue_s or 0.0) for job in group)


def _last_end(group: Iterable[Job]) -> float:
    return max(stored_epoch(job.completed_at) for job in group)
