"""How many runs a day so many cards carry: formulas, on paper; `test_selection.capacity_days` draws days.

Words: a *round* is what one run takes from its submission to its report,

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
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from test_selection.bound import longest_test, lower_bound
from test_selection.catalog import CatalogTest
from test_selection.loads import FileLoad

DAY_S = 24 * 3600.0
HOUR_S = 3600.0
# What takes this share of a round binds it.
MOST = 0.5
# A makespan so far above what the cards could do is uneven.
UNEVEN = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a cluster adds to a plan.

    Attributes:
        queue_s: seconds a job waits until its pods are let in.
        startup_s: mean seconds until a pod has started (exponential, each pod its own).
        report_s: seconds from the last test to the report.
        faults_h: faults of a card in an hour.
        repair_h: hours until a card that failed is back.
        pod_cards: cards of a pod, which take over each other's tests; 0: all cards do.
        sigma_file: a file's tests take exp(N(0, sigma)) times what was expected.
        sigma_speed: a card works exp(N(0, sigma)) times as fast.
    """

    queue_s: float = 0.0
    startup_s: float = 0.0
    report_s: float = 0.0
    faults_h: float = 0.0
    repair_h: float = 0.0
    pod_cards: int = 8
    sigma_file: float = 0.3
    sigma_speed: float = 0.1

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

    def pods(self, cards: int) -> int:
        """Pods that so many cards make."""
        return math.ceil(cards / self.pod_cards) if self.pod_cards else 1


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


def paper_round(loads: Sequence[FileLoad], cards: int, conditions: Conditions) -> float:
    """Seconds of a round at the least: every pod starts at once, and the split is the lower bound."""
    waits = conditions.queue_s + conditions.startup_s + conditions.report_s
    return waits + lower_bound(loads, conditions.up(cards))


def runs_a_day(round_s: float) -> float:
    """Rounds in a day; infinite where one takes no time."""
    return DAY_S / round_s if round_s > 0 else math.inf


def what_binds(loads: Sequence[FileLoad], up: int, *, makespan_s: float, waits_s: float) -> str:
    """What most keeps a round from being shorter, in words.

    `waiting` (queue, start-up and report: half of the round or more), `longest test` (no number of cards ends
    sooner), `balance` (uneven cards and estimates: the drawn makespan is half again above the bound),
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
        return "balance"
    return "set-up" if math.fsum(load.total_s for load in loads) <= MOST * bound * up else "cards"
