"""How many runs a day so many cards carry, and how many cards a wanted run takes: days of a cluster, drawn.

A *round* is what one run takes from its submission to its report,

    round = queue wait + start-up and makespan + report,

and runs go one after another, each on all cards that are up: 24 h / round of them a day. It is what holds
where everybody waits for the same cards; two half-size runs side by side carry no more where the cards bind,
and more where the longest test does.

Cards fail at random, `faults` per card-hour (MTBF = 1 / faults), and are out for `repair` hours (MTTR), each
by itself and with nobody waiting to repair it. In the long run a card is then up for the share

    availability = MTBF / (MTBF + MTTR) = 1 / (1 + faults * repair)

of the time (the steady state of an alternating renewal process: Barlow and Proschan, Mathematical Theory of
Reliability, 1965), and n cards are n * availability on average. By Little's law (L = lambda W) rounds that
follow one another keep (card-seconds of work) / round cards at work.

The plan and its run are the planner's (`pack.make_plan`, `simulate.run_pieces`). Each pod is simulated
by itself, as pods of an Indexed Job know nothing of each other, and all together where they share a volume.
A card fails after an exponential time, the others of its pod take its tests over; when all have failed, one
pod takes the whole of what is left up anew, after another start-up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from test_selection.bound import longest_test, lower_bound
from test_selection.catalog import CatalogTest
from test_selection.estimates import quantile
from test_selection.loads import FileLoad
from test_selection.pack import make_plan
from test_selection.pieces import Piece, cut_plan, piece_seconds
from test_selection.simulate import Outcome, run_pieces
from test_selection.simulated_day import Randomness, Truth, Uncertainty, after, dies_after, draw_truth

DAY_S = 24 * 3600.0
MOST_CARDS = 4096
# Twice the cards that bring less than this share bring nothing worth having.
PAYS = 0.10
# What takes this share of a round limits it.
MOST = 0.5
# A makespan so far above what the cards could do is uneven.
UNEVEN = 1.5
# A forecast need not claim as finely as a run does: so many pieces a shard cost a third of the time.
PIECES = 16
# A piece stands for its tests in so many parts, each under the id of one: what a card that dies has done of
# it is done.
PARTS = 4
# A number of cards that is sought is found this exactly.
EXACT = 0.05
Draws = Callable[[int], Randomness]
Pieces = list[list[Piece]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions(Uncertainty):
    """What a cluster adds to a plan; each pod has a start-up of its own.

    Attributes:
        queue_s: seconds a job waits until its pods are let in.
        report_s: seconds from the last test to the report.
        repair_h: hours until a card that failed is back.
        pod_cards: cards of a pod, which take over each other's tests; 0: all cards do.
    """

    queue_s: float = 0.0
    report_s: float = 0.0
    repair_h: float = 0.0
    pod_cards: int = 8
    sigma_file: float = 0.3
    sigma_speed: float = 0.1

    @property
    def waits_s(self) -> float:
        """Queue, a pod's start-up and report."""
        return self.queue_s + self.startup_s + self.report_s

    @property
    def availability(self) -> float:
        """The share of the time a card is up: 1 / (1 + faults * repair)."""
        return 1 / (1 + self.faults_h * self.repair_h)

    def up(self, cards: int) -> int:
        """How many of so many cards are up, on average and rounded down; at least one."""
        # A product such as 0.9 * 10 may lie a rounding below the whole number it is.
        return max(1, math.floor(cards * self.availability + 1e-9))

    def owned(self, up: int) -> int:
        """The least number of cards of which `up` are up."""
        # Of few cards one counts as up however seldom it is: the estimate lies above them.
        cards = 1 if self.up(1) >= up else max(up, math.floor(up / self.availability) - 1)
        while self.up(cards) < up:
            cards += 1
        return cards


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is to be run: the tests, what each and each file's set-up takes, and both as the planner packs."""

    tests: Sequence[CatalogTest]
    test_s: Mapping[str, float]
    file_s: Mapping[str, float]
    loads: Sequence[FileLoad]

    @property
    def total_s(self) -> float:
        """Card-seconds of the tests, without set-up."""
        return math.fsum(load.total_s for load in self.loads)

    @property
    def longest_s(self) -> float:
        """Seconds of the longest test with the set-up of its file."""
        return longest_test(self.loads)


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
class Forecast:
    """What so many cards carry.

    Attributes:
        cards: owned.
        up: of them, on average; a run is planned for these.
        bound_s: no split over `up` cards ends sooner.
        days: as drawn.
        conditions: of the cluster.
        limited_by: what most keeps a round from being shorter.
    """

    cards: int
    up: int
    bound_s: float
    days: tuple[Day, ...]
    conditions: Conditions
    limited_by: str

    def makespan(self, share: float) -> float:
        """From start-up to the last test's end: what this share of the days did not exceed, in seconds."""
        return quantile([day.ends_s for day in self.days], share)

    def round_s(self, share: float) -> float:
        """From submission to report, likewise."""
        return self.conditions.queue_s + self.makespan(share) + self.conditions.report_s

    def runs(self, share: float) -> float:
        """Runs a day where each takes that long; infinite where one takes no time."""
        round_s = self.round_s(share)
        return DAY_S / round_s if round_s > 0 else math.inf

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
    """How many cards a round of at most so many seconds takes; none, and why, where no number does."""

    allowed_s: float
    found: Forecast | None
    refusal: str = ""


def paper_round(loads: Sequence[FileLoad], cards: int, conditions: Conditions) -> float:
    """Seconds of a round at the least: every pod starts at once, and the split is the lower bound."""
    return conditions.waits_s + lower_bound(loads, conditions.up(cards))


def doublings(most: int) -> list[int]:
    """1, 2, 4 … and `most`."""
    return sorted({*(2**power for power in range(most.bit_length())), most})


def no_gain_beyond(loads: Sequence[FileLoad], most: int) -> int:
    """The least power of two below `most` from which twice the cards bring less than a tenth; else `most`."""
    count = 1
    while count < most:
        if lower_bound(loads, min(2 * count, most)) >= (1 - PAYS) * lower_bound(loads, count):
            return count
        count *= 2
    return most


def limit_of(loads: Sequence[FileLoad], up: int, *, makespan_s: float, waits_s: float) -> str:
    """What most keeps a round from being shorter, in words.

    `waiting` (queue, start-up and report: half of the round or more), `longest test` (no number of cards ends
    sooner), `load balance` (uneven cards and estimates: the drawn makespan is half again above the bound),
    `set-up` (at least half of the cards' time), or `cards` (more of them help).

    Args:
        loads: what is packed.
        up: cards that work.
        makespan_s: of a drawn day, without its start-up.
        waits_s: queue, start-up and report.
    """
    bound = lower_bound(loads, up)
    if not loads:
        return "nothing"
    if waits_s >= MOST * (waits_s + makespan_s):
        return "waiting"
    if up > 1 and bound <= longest_test(loads) * (1 + 1e-6):
        return "longest test"
    if makespan_s > UNEVEN * bound:
        return "load balance"
    return "set-up" if math.fsum(load.total_s for load in loads) <= MOST * bound * up else "cards"


def forecast(work: Work, cards: int, conditions: Conditions, *, draws: int, randomness: Draws) -> Forecast:
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
    # Parts stand for tests: a file is off as a whole, and so are they.
    file_of = {name: one.file for row in pieces for one in row for name in one.ids}
    part_s = {name: one.expected_s / len(one.ids) for row in pieces for one in row for name in one.ids}
    off = Uncertainty(sigma_file=conditions.sigma_file, sigma_speed=conditions.sigma_speed)
    run = partial(run_pieces, file_s=work.file_s, tick_s=size)
    days = []
    for number in range(draws):
        drawn = randomness(number)
        truth = draw_truth(file_of, up, test_s=part_s, file_s=work.file_s, off=off, randomness=drawn)
        days.append(_draw(pieces, truth, conditions, run, drawn))
    median = quantile([day.ends_s for day in days], 0.5)
    # Cards that begin early work while others start: what start-up costs is what it adds at the end.
    late = min(quantile([day.last_start_s for day in days], 0.5), median)
    waits = conditions.queue_s + late + conditions.report_s
    return Forecast(
        cards=cards,
        up=up,
        bound_s=lower_bound(work.loads, up),
        days=tuple(days),
        conditions=conditions,
        limited_by=limit_of(work.loads, up, makespan_s=max(median - late, 0.0), waits_s=waits),
    )


def needed(work: Work, allowed_s: float, conditions: Conditions, *, at: Callable[[int], Forecast]) -> Needed:
    """The least number of cards, to a twentieth, that keep a round within so many seconds, nine days of ten.

    The bound says where to begin; what counts is that drawn days keep the promise.

    Args:
        work: what is run.
        allowed_s: seconds from submission to report.
        conditions: of the cluster.
        at: what cards of which so many are up carry; `forecast`, and it may remember.
    """

    def refused(why: str) -> Needed:
        return Needed(allowed_s=allowed_s, found=None, refusal=why)

    left = allowed_s - conditions.waits_s
    if left <= 0:
        return refused("queue wait, start-up and report alone take longer than a run may take")
    if work.longest_s > left:
        return refused(
            f"no number of cards finishes within {left:g} s: "
            f"the longest test takes {work.longest_s:.1f} s with set-up"
        )
    if (bound := lower_bound(work.loads, MOST_CARDS)) > left:
        return refused(f"{MOST_CARDS:,} cards take at least {bound:.1f} s, more than {left:g} s")
    up = _least(lambda count: lower_bound(work.loads, count) <= left, 0, MOST_CARDS)
    low, found = up - 1, at(up)
    while found.round_s(0.9) > allowed_s:
        if up >= MOST_CARDS:
            return refused(
                f"{MOST_CARDS:,} cards need {found.round_s(0.9):,.0f} s a run on nine days of ten, "
                f"not {allowed_s:,.0f}: limited by {found.limited_by}"
            )
        low, up = up, min(2 * up, MOST_CARDS)
        found = at(up)
    up = _least(lambda count: at(count).round_s(0.9) <= allowed_s, low, up, exact=EXACT)
    return Needed(allowed_s=allowed_s, found=at(up))


def _least(fits: Callable[[int], bool], low: int, high: int, *, exact: float = 0.0) -> int:
    """The least number above `low` that fits, to so large a part of it; `high` does."""
    while high - low > max(1, exact * high):
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle
    return high


def _draw(
    pieces: Pieces, truth: Truth, conditions: Conditions, run: Callable[..., Outcome], randomness: Randomness
) -> Day:
    """Run each pod for itself; its clock begins when it has started, for nothing happens before."""
    size = conditions.pod_cards or len(pieces)
    starts, ends, works, replaced = [], [], [], 0
    for first in range(0, len(pieces), size):
        mine = pieces[first : first + size]
        count = len(mine)
        starts.append(after(conditions.startup_s, randomness))
        dies_at = tuple(dies_after(conditions.faults_h, randomness) for _ in range(count))
        day = replace(truth.of_cards(first, count), starts_at=(0.0,) * count, dies_at=dies_at)
        outcome = run(mine, day)
        took_s, work_s = outcome.makespan_s, outcome.busy * outcome.makespan_s * count
        if left := set(outcome.not_run):
            rest = [[part for piece in shard if (part := _part(piece, left)).ids] for shard in mine]
            again = run(rest, replace(day, dies_at=(math.inf,) * count))
            took_s = max(dies_at) + after(conditions.startup_s, randomness) + again.makespan_s
            work_s += again.busy * again.makespan_s * count
            replaced += 1
        ends.append(starts[-1] + took_s)
        works.append(work_s)
    return Day(ends_s=max(ends), last_start_s=max(starts), work_s=math.fsum(works), replaced=replaced)


def _part(piece: Piece, left: Collection[str]) -> Piece:
    """What is left of a piece that a card may have begun."""
    ids = tuple(name for name in piece.ids if name in left)
    return replace(piece, ids=ids, expected_s=piece.expected_s * len(ids) / len(piece.ids))
