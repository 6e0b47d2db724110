"""The numbers a back end is judged by: flaky share, pass rate, cycle time of a commit, outages; pure.

An outage begins when a lane's nightly starts and does not succeed, or when none has started within one and a
half of the lane's usual interval; it ends when the next nightly succeeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from statistics import median

from ci.hud.callback import NIGHTLY_EVENTS, stored_epoch
from ci.hud.server.queries.card_health import DayVerdict
from ci.hud.server.queries.jobs import Job
from ci.hud.server.queries.rows import grouped
from ci.hud.server.queries.timing import Spread, spread
from ci.hud.server.queries.window import DAY_S
from ci.record.verdict import GOOD_AT_LAST, PROBLEMS, RAN
from ci.report.flakes import LIMIT_PERCENT
from ci.store.database import moment

LIMIT_S = 3 * DAY_S
LATE = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A time without a good nightly.

    Attributes:
        repo: the back end.
        lane: its lane.
        began: when the first nightly that was not good started, or one should have.
        ended: when the next good one completed; empty where it goes on.
        seconds: from one to the other, or until now.
        red: how many nightlies in it did not succeed.
        missing: whether one was missing.
        first: the run it began with; None where that is the one that is missing.
    """

    repo: str
    lane: str
    began: str
    ended: str
    seconds: float
    red: int
    missing: bool
    first: int | None

    @property
    def long(self) -> bool:
        """Whether it took more than three days."""
        return self.seconds > LIMIT_S


def outages(jobs: Iterable[Job], now: float) -> list[Outage]:
    """The outages of every nightly lane, the newest first.

    Args:
        jobs: superseded attempts left out; of a lane's jobs of one run all must be good.
        now: seconds since the epoch.
    """
    nightlies = [job for job in jobs if job.event in NIGHTLY_EVENTS and job.started_at and job.done]
    by_lane = grouped(nightlies, lambda job: (job.repo, job.lane))
    found = [one for (repo, lane), group in by_lane.items() for one in _of_lane(repo, lane, group, now)]
    return sorted(found, key=lambda one: (one.began, one.repo, one.lane), reverse=True)


def _of_lane(repo: str, lane: str, jobs: Sequence[Job], now: float) -> list[Outage]:
    runs = _runs(jobs)
    gaps = [later[0] - earlier[0] for earlier, later in pairwise(runs)]
    usual = max(DAY_S, median(gaps)) if gaps else DAY_S
    made: list[Outage] = []
    began: float | None = None
    red, missing, first = 0, False, None
    before = runs[0][0]
    # What goes on ends now, and a nightly that should have started by now is missing.
    for start, end, good, number in [*runs, (now, now, True, None)]:
        if start - before > LATE * usual:
            began, missing = before + usual if began is None else began, True
        if not good:
            began, red, first = (start, 1, number) if began is None else (began, red + 1, first)
        elif began is not None:
            over = number is not None
            made.append(
                Outage(
                    repo=repo,
                    lane=lane,
                    began=moment(began),
                    ended=moment(end) if over else "",
                    seconds=max(0.0, end - began),
                    red=red,
                    missing=missing,
                    first=first,
                )
            )
            began, red, missing, first = None, 0, False, None
        before = start
    return made


def _runs(jobs: Sequence[Job]) -> list[tuple[float, float, bool, int]]:
    """The nightlies of a lane in order: start, end, whether all its jobs are good, and its first bad job."""
    made = []
    for group in grouped(jobs, lambda job: job.run_id).values():
        ordered = sorted(group, key=lambda job: (job.green, job.started_at, job.id))
        ends = [stored_epoch(job.completed_at or job.started_at) for job in group]
        start = min(stored_epoch(job.started_at) for job in group)
        made.append((start, max(start, *ends), all(job.green for job in group), ordered[0].id))
    return sorted(made)


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
        broken_changes: full runs, ordered by a change, in which tests failed that never had.
        caught_changes: those in which the change names one of these tests.
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
    broken_changes: int
    caught_changes: int


def metrics(jobs: Sequence[Job], verdicts: Sequence[DayVerdict], now: float) -> Metrics:
    """The metrics of jobs, superseded attempts left out, and of their tests."""
    jobs_of = grouped(jobs, lambda job: _monday(job.started_at[:10]))
    tests_of = grouped(verdicts, lambda one: _monday(one.day))
    mondays = sorted({*jobs_of, *tests_of})
    total = _week("", jobs, verdicts)
    out = outages(jobs, now)
    return Metrics(
        weeks=[_week(monday, jobs_of.get(monday, ()), tests_of.get(monday, ())) for monday in mondays],
        total=total,
        flaky_limit=LIMIT_PERCENT / 100,
        flaky_ok=(not total.flaky or 100 * total.flaky < LIMIT_PERCENT * total.ran) if total.ran else None,
        cycle=spread(cycle_seconds(jobs).values()),
        outages=out,
        recovery=spread(one.seconds for one in out if one.ended),
        recovery_limit_s=LIMIT_S,
        recovery_ok=not any(one.long for one in out),
        broken_changes=sum(bool(job.change_failed) for job in jobs),
        caught_changes=sum(bool(job.change_caught) for job in jobs),
    )


def cycle_seconds(jobs: Iterable[Job]) -> Mapping[tuple[str, str], float]:
    """By back end and commit whose jobs all completed: from the first dispatch or start to the last end."""
    return {
        key: max(0.0, max(map(_end, group)) - min(map(_begin, group)))
        for key, group in grouped(jobs, lambda job: (job.repo, job.sha)).items()
        if all(job.done and job.completed_at for job in group)
    }


def _week(monday: str, jobs: Sequence[Job], verdicts: Sequence[DayVerdict]) -> Week:
    completed = [job for job in jobs if job.done]
    counts = Counter[str]()
    for one in verdicts:
        counts[one.verdict] += one.tests
    return Week(
        monday=monday,
        jobs=len(completed),
        successes=sum(job.green for job in completed),
        ran=sum(counts[one] for one in RAN),
        flaky=counts["flaky"],
        good=sum(counts[one] for one in GOOD_AT_LAST),
        bad=sum(counts[one] for one in PROBLEMS),
    )


def _monday(day: str) -> str:
    when = date.fromisoformat(day)
    return (when - timedelta(days=when.weekday())).isoformat()


def _begin(job: Job) -> float:
    return stored_epoch(job.started_at) - (job.queue_s or 0.0)


def _end(job: Job) -> float:
    return stored_epoch(job.completed_at)
