"""Days of a cluster, drawn: a plan run on paper with pods that start when they do and cards that fail.

The plan and its run are the planner's (`pack.make_plan`, `simulate.run_pieces`). Each pod is a floor of its
own, as pods of an Indexed Job know nothing of each other; where they share a volume all cards are one floor.
A card fails after an exponential time, the others of its pod take its tests over; when all have failed, one
pod takes the whole of what is left up anew, after another start-up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from test_selection.bound import lower_bound
from test_selection.capacity import DAY_S, HOUR_S, Conditions, Work, runs_a_day, what_binds
from test_selection.durations import quantile
from test_selection.errors import UsageError
from test_selection.forecast import cards_within
from test_selection.pack import make_plan
from test_selection.plan import Group, Plan
from test_selection.simulate import Outcome, run_pieces
from test_selection.steal import Piece, cut_plan, piece_seconds
from test_selection.world import Randomness, Truth, World, draw_truth

# A forecast need not claim as finely as a run does: so many pieces a shard cost a third of the time.
PIECES = 16
# A piece stands for its tests in so many parts, each under the id of one: what a card that dies has done of
# it is done.
PARTS = 4
# A number of cards that is sought is found this exactly.
EXACT = 0.05
MOST_CARDS = 4096
Draws = Callable[[int], Randomness]
Pieces = list[list[Piece]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """A run on one drawn day.

    Attributes:
        ends_s: from letting the pods in to the end of the last test, start-up included.
        last_start_s: until the last pod had started, of that.
        work_s: card-seconds spent on tests and set-up.
        replaced: pods that were taken up anew because all their cards had failed.
    """

    ends_s: float
    last_start_s: float
    work_s: float
    replaced: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What so many cards carry.

    Attributes:
        cards: owned.
        up: of them, on average; a run is planned for these.
        bound_s: no split over `up` cards ends sooner.
        days: as drawn.
        conditions: of the cluster.
        binds: what most keeps a round from being shorter.
    """

    cards: int
    up: int
    bound_s: float
    days: tuple[Day, ...]
    conditions: Conditions
    binds: str

    def makespan(self, share: float) -> float:
        """From start-up to the last test's end: what this share of the days did not exceed, in seconds."""
        return quantile([day.ends_s for day in self.days], share)

    def round_s(self, share: float) -> float:
        """From submission to report, likewise."""
        return self.conditions.queue_s + self.makespan(share) + self.conditions.report_s

    def runs(self, share: float) -> float:
        """Runs a day where each takes that long."""
        return runs_a_day(self.round_s(share))

    @property
    def busy(self) -> float:
        """Cards at work on average, while one round follows another."""
        work = math.fsum(day.work_s for day in self.days) / len(self.days)
        return min(work / self.round_s(0.5), float(self.up)) if self.round_s(0.5) else 0.0

    @property
    def out(self) -> float:
        """Cards out by faults, on average."""
        return self.cards * (1 - self.conditions.availability)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """How many cards so many runs a day take; none, and why, where no number does."""

    runs: float
    found: Capacity | None
    refusal: str = ""


def capacity(work: Work, cards: int, conditions: Conditions, *, draws: int, randomness: Draws) -> Capacity:
    """What so many cards carry, over drawn days.

    Args:
        work: what is run.
        cards: owned.
        conditions: of the cluster.
        draws: days.
        randomness: gives the draws of a day by its number; the same number is the same day at any size.
    """
    up = conditions.up(cards)
    plan = make_plan(work.tests, test_s=work.test_s, file_s=work.file_s, shards=up)
    size = max(piece_seconds(plan), plan.makespan_s / PIECES)
    pieces = [[replace(one, ids=one.ids[:PARTS]) for one in row] for row in cut_plan(plan, work.test_s, size)]
    coarse = _in_pieces(plan, pieces)
    part_s = {name: one.expected_s / len(one.ids) for row in pieces for one in row for name in one.ids}
    days = tuple(
        _draw(coarse, pieces, part_s, work, conditions, tick_s=size, randomness=randomness(number))
        for number in range(draws)
    )
    median = quantile([day.ends_s for day in days], 0.5)
    start = quantile([day.last_start_s for day in days], 0.5)
    # Cards that begin early work while others start: what start-up costs is what it adds at the end.
    late = min(start, median)
    return Capacity(
        cards=cards,
        up=up,
        bound_s=lower_bound(work.loads, up),
        days=days,
        conditions=conditions,
        binds=what_binds(
            work.loads,
            up,
            makespan_s=max(median - late, 0.0),
            waits_s=conditions.queue_s + late + conditions.report_s,
        ),
    )


def needed(work: Work, runs: float, conditions: Conditions, *, at: Callable[[int], Capacity]) -> Needed:
    """The least number of cards, to a twentieth, that carries so many runs a day on nine days of ten.

    The bound says where to begin; what counts is that drawn days keep the promise.

    Args:
        work: what is run.
        runs: wanted in a day.
        conditions: of the cluster.
        at: what cards of which so many are up carry; `capacity`, and it may remember.
    """
    allowed = DAY_S / runs
    left = allowed - conditions.queue_s - conditions.startup_s - conditions.report_s
    if left <= 0:
        return Needed(
            runs=runs, found=None, refusal="queue, start-up and report alone take longer than a run may"
        )
    try:
        low = cards_within(work.loads, left, MOST_CARDS) - 1
    except UsageError as error:
        return Needed(runs=runs, found=None, refusal=error.what)

    up = low + 1
    found = at(up)
    while found.round_s(0.9) > allowed:
        if up >= MOST_CARDS:
            return Needed(
                runs=runs,
                found=None,
                refusal=f"{MOST_CARDS:,} cards need {found.round_s(0.9):,.0f} s a run on nine days of ten, "
                f"not {allowed:,.0f}: {found.binds} binds",
            )
        low, up = up, min(2 * up, MOST_CARDS)
        found = at(up)
    while up - low > max(1, EXACT * up):
        middle = (low + up) // 2
        tried = at(middle)
        if tried.round_s(0.9) <= allowed:
            up, found = middle, tried
        else:
            low = middle
    return Needed(runs=runs, found=found)


def _in_pieces(plan: Plan, pieces: Pieces) -> Plan:
    """The plan with the parts of pieces in place of tests: a file is off as a whole, and so are they."""
    shards = tuple(
        replace(shard, groups=tuple(Group(file=one.file, ids=one.ids) for one in row))
        for shard, row in zip(plan.shards, pieces, strict=True)
    )
    return replace(plan, shards=shards)


def _draw(
    plan: Plan,
    pieces: Pieces,
    part_s: Mapping[str, float],
    work: Work,
    conditions: Conditions,
    *,
    tick_s: float,
    randomness: Randomness,
) -> Day:
    world = World(sigma_file=conditions.sigma_file, sigma_speed=conditions.sigma_speed)
    truth = draw_truth(plan, test_s=part_s, file_s=work.file_s, world=world, randomness=randomness)
    size = conditions.pod_cards or len(pieces)
    pods = [
        _draw_pod(
            pieces[first : first + size],
            replace(truth, speeds=truth.speeds[first : first + size]),
            work,
            conditions,
            tick_s=tick_s,
            randomness=randomness,
        )
        for first in range(0, len(pieces), size)
    ]
    return Day(
        ends_s=max(pod.ends_s for pod in pods),
        last_start_s=max(pod.last_start_s for pod in pods),
        work_s=math.fsum(pod.work_s for pod in pods),
        replaced=sum(pod.replaced for pod in pods),
    )


def _draw_pod(
    mine: Pieces,
    truth: Truth,
    work: Work,
    conditions: Conditions,
    *,
    tick_s: float,
    randomness: Randomness,
) -> Day:
    """One pod's day; its clock begins when it has started, for nothing happens before."""
    count = len(mine)
    starts_s = _startup(conditions, randomness)
    rate = conditions.faults_h / HOUR_S
    day = replace(
        truth,
        starts_at=(0.0,) * count,
        dies_at=tuple(randomness.expovariate(rate) if rate else math.inf for _ in range(count)),
    )
    outcome = _run(mine, day, work, tick_s)
    took_s, work_s = outcome.makespan_s, outcome.busy * outcome.makespan_s * count
    if left := set(outcome.not_run):
        rest = [[part for piece in shard if (part := _part(piece, left)).ids] for shard in mine]
        again = _run(rest, replace(day, dies_at=(math.inf,) * count), work, tick_s)
        took_s = max(day.dies_at) + _startup(conditions, randomness) + again.makespan_s
        work_s += again.busy * again.makespan_s * count
    return Day(ends_s=starts_s + took_s, last_start_s=starts_s, work_s=work_s, replaced=int(bool(left)))


def _part(piece: Piece, left: Collection[str]) -> Piece:
    """What is left of a piece that a card may have begun."""
    ids = tuple(name for name in piece.ids if name in left)
    return replace(piece, ids=ids, expected_s=piece.expected_s * len(ids) / len(piece.ids))


def _startup(conditions: Conditions, randomness: Randomness) -> float:
    return randomness.expovariate(1 / conditions.startup_s) if conditions.startup_s else 0.0


def _run(pieces: Pieces, day: Truth, work: Work, tick_s: float) -> Outcome:
    # What could have been is not asked here: the bound of a day is left out.
    return run_pieces(pieces, day, World(), file_s=work.file_s, domain=None, tick_s=tick_s, bound_s=0.0)
