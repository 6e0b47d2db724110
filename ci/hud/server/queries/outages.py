"""Outages of nightly lanes, and how long a lane took to recover; pure.

An outage begins when a lane's nightly starts and does not succeed, or when none has started within one and a
half of the lane's usual interval; it ends when the next nightly succeeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from ci.hud.callback import NIGHTLY_EVENTS, stored_epoch
from ci.hud.server.queries.jobs import Job
from ci.hud.server.queries.window import DAY_S, moment

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


@dataclass(slots=True, kw_only=True)
class _Open:
    began: float
    red: int = 0
    missing: bool = False
    first: int | None = None


def outages(jobs: Iterable[Job], now: float) -> list[Outage]:
    """The outages of every nightly lane, the newest first.

    Args:
        jobs: superseded attempts left out; of a lane's jobs of one run all must be good.
        now: seconds since the epoch.
    """
    by_lane: dict[tuple[str, str], list[Job]] = {}
    for job in jobs:
        if job.event in NIGHTLY_EVENTS and job.started_at and job.done:
            by_lane.setdefault((job.repo, job.lane), []).append(job)
    found = [one for (repo, lane), group in by_lane.items() for one in _of_lane(repo, lane, group, now)]
    return sorted(found, key=lambda one: (one.began, one.repo, one.lane), reverse=True)


def _of_lane(repo: str, lane: str, jobs: Sequence[Job], now: float) -> list[Outage]:
    runs = _runs(jobs)
    starts = [start for start, _, _, _ in runs]
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    usual = max(DAY_S, median(gaps)) if gaps else DAY_S
    made: list[Outage] = []
    going: _Open | None = None
    before: float | None = None
    for start, end, good, number in runs:
        if before is not None and start - before > LATE * usual:
            going = going or _Open(began=before + usual)
            going.missing = True
        if good and going is not None:
            made.append(_closed(repo, lane, going, end))
            going = None
        elif not good:
            going = going or _Open(began=start, first=number)
            going.red += 1
        before = start
    if before is not None and now - before > LATE * usual:
        going = going or _Open(began=before + usual)
        going.missing = True
    if going is not None:
        made.append(_closed(repo, lane, going, None, now))
    return made


def _closed(repo: str, lane: str, one: _Open, end: float | None, now: float = 0.0) -> Outage:
    return Outage(
        repo=repo,
        lane=lane,
        began=moment(one.began),
        ended="" if end is None else moment(end),
        seconds=max(0.0, (now if end is None else end) - one.began),
        red=one.red,
        missing=one.missing,
        first=one.first,
    )


def _runs(jobs: Sequence[Job]) -> list[tuple[float, float, bool, int]]:
    """The nightlies of a lane in order: start, end, whether all its jobs are good, and its first bad job."""
    by_run: dict[str, list[Job]] = {}
    for job in jobs:
        by_run.setdefault(job.run_id, []).append(job)
    made = []
    for group in by_run.values():
        ordered = sorted(group, key=lambda job: (job.green, job.started_at, job.id))
        ends = [stored_epoch(job.completed_at or job.started_at) for job in group]
        start = min(stored_epoch(job.started_at) for job in group)
        made.append((start, max(start, *ends), all(job.green for job in group), ordered[0].id))
    return sorted(made)
