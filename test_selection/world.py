"""What a plan does not know: how long tests really take, how fast cards are, what breaks and when.

A `World` says how far off things may be, `draw_truth` makes one day of it, and `true_bound` says below which
makespan nobody could have gone that day, had he known.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from test_selection.bound import ROUNDING, least
from test_selection.durations import UNKNOWN_TEST_S
from test_selection.plan import Plan


class Randomness(Protocol):
    """What is used of a `random.Random`, which the caller makes from a seed."""

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        """A normal draw."""

    def random(self) -> float:
        """A uniform draw from [0, 1)."""

    def expovariate(self, lambd: float) -> float:
        """An exponential draw of mean 1 / lambd."""

    def sample(self, population: Sequence[int], k: int) -> list[int]:
        """`k` different elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """How far off things may be.

    Attributes:
        sigma_file: a file's tests take exp(N(0, sigma)) times what was expected, all of them the same.
        sigma_test: a test takes exp(N(0, sigma)) times that, each its own.
        sigma_speed: a card works exp(N(0, sigma)) times as fast.
        speeds: the cards' speeds, where they are given, in the order of shards; repeated from the front.
        crash_rate: share of the tests that end their process: its file is set up again for what follows.
        dead_cards: how many cards die, each at some moment of the planned makespan.
        startup_s: mean seconds until a card's worker has started (exponential).
        claim_s: seconds a claim of a piece takes.
        notice_s: seconds until the others see that a card is dead.
    """

    sigma_file: float = 0.0
    sigma_test: float = 0.0
    sigma_speed: float = 0.0
    speeds: tuple[float, ...] = ()
    crash_rate: float = 0.0
    dead_cards: int = 0
    startup_s: float = 0.0
    claim_s: float = 0.01
    notice_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """One day.

    Attributes:
        test_s: true seconds of each test, on a card of speed 1, by canonical id.
        setup_s: set-up seconds of each file, on a card of speed 1.
        crashes: ids of the tests that end their process.
        speeds: of each card.
        starts_at: when each card's worker has started, in seconds.
        dies_at: when each card dies; infinite for most.
    """

    test_s: Mapping[str, float]
    setup_s: Mapping[str, float]
    crashes: frozenset[str]
    speeds: tuple[float, ...]
    starts_at: tuple[float, ...]
    dies_at: tuple[float, ...]


def draw_truth(
    plan: Plan,
    *,
    test_s: Mapping[str, float],
    file_s: Mapping[str, float],
    world: World,
    randomness: Randomness,
) -> Truth:
    """Draw one day; how the plan splits the tests does not change what they take."""
    file_of = {name: group.file for shard in plan.shards for group in shard.groups for name in group.ids}
    files = sorted(set(file_of.values()))
    factors = {file: _factor(world.sigma_file, randomness) for file in files}
    names = sorted(file_of)
    true_s = {
        name: test_s.get(name, UNKNOWN_TEST_S)
        * factors[file_of[name]]
        * _factor(world.sigma_test, randomness)
        for name in names
    }
    crashes = [name for name in names if randomness.random() < world.crash_rate] if world.crash_rate else []
    cards = len(plan.shards)
    given = world.speeds
    return Truth(
        test_s=true_s,
        setup_s={file: file_s.get(file, 0.0) for file in files},
        crashes=frozenset(crashes),
        speeds=tuple(
            (given[card % len(given)] if given else 1.0) * _factor(world.sigma_speed, randomness)
            for card in range(cards)
        ),
        starts_at=tuple(
            randomness.expovariate(1 / world.startup_s) if world.startup_s else 0.0 for _ in range(cards)
        ),
        dies_at=_deaths(cards, world, plan.makespan_s, randomness),
    )


def _factor(sigma: float, randomness: Randomness) -> float:
    return math.exp(randomness.gauss(0.0, sigma)) if sigma else 1.0


def _deaths(cards: int, world: World, makespan: float, randomness: Randomness) -> tuple[float, ...]:
    dies = [math.inf] * cards
    for card in randomness.sample(range(cards), min(world.dead_cards, cards)):
        dies[card] = randomness.random() * makespan
    return tuple(dies)


def true_bound(plan: Plan, truth: Truth) -> float:
    """Seconds below which no split of these tests over these cards could have ended, knowing all of it.

    As `bound.lower_bound`, with cards of their own speed, start and end: a file whose tests take D seconds
    and whose set-up takes s needs at least the k fastest cards that together do D + k s until T, and a set-up
    more for each crash that k does not cover. Infinite where the living cards never could.
    """
    files = _files(plan, truth)
    if not files:
        return 0.0

    def fits(limit: float) -> bool:
        rooms = _rooms(truth, limit)
        return _work(files, rooms) <= math.fsum(rooms) * (1 + ROUNDING)

    fastest = max(truth.speeds)
    start = max(
        max(setup + longest for setup, _, longest, _ in files) / fastest,
        math.fsum(setup + total for setup, total, _, _ in files) / math.fsum(truth.speeds),
    )
    if math.isinf(min(truth.dies_at, default=0.0)) or math.isinf(max(truth.dies_at)):
        return least(fits, start)
    return least(fits, start) if fits(max(truth.dies_at) + 1) else math.inf


def _files(plan: Plan, truth: Truth) -> list[tuple[float, float, float, int]]:
    """Set-up, seconds of all tests, longest test and crashes of each file."""
    by_file: dict[str, list[str]] = {}
    for shard in plan.shards:
        for group in shard.groups:
            by_file.setdefault(group.file, []).extend(group.ids)
    return [
        (
            truth.setup_s[file],
            math.fsum(truth.test_s[name] for name in names),
            max((truth.test_s[name] for name in names), default=0.0),
            sum(name in truth.crashes for name in names) if truth.crashes else 0,
        )
        for file, names in sorted(by_file.items())
    ]


def _rooms(truth: Truth, limit: float) -> list[float]:
    """Seconds of work each card can do until `limit`, most first."""
    cards = zip(truth.speeds, truth.starts_at, truth.dies_at, strict=True)
    return sorted(
        (speed * max(0.0, min(limit, dies) - starts) for speed, starts, dies in cards), reverse=True
    )


def _work(files: Sequence[tuple[float, float, float, int]], rooms: Sequence[float]) -> float:
    sums = list(accumulate(rooms))
    work, count, cheapest = 0.0, 0, min(setup for setup, *_ in files)
    for setup, total, _, crashes in files:
        # Past the cards whose room is below the set-up, more of them do not help.
        useful = bisect_left(rooms, -setup, key=lambda room: -room)
        pieces = 1
        if total > 0:
            pieces += _first_enough(sums, useful, setup, total * (1 - ROUNDING))
            if pieces > useful:
                return math.inf
        work += total + setup * max(pieces, crashes)
        count += max(pieces, crashes)
    # Every card that is used sets up something, and one whose room is below the cheapest set-up is not used.
    used = bisect_left(rooms, -cheapest, key=lambda room: -room)
    return work + cheapest * max(0, used - count) + math.fsum(rooms[used:])


def _first_enough(sums: Sequence[float], useful: int, setup: float, total: float) -> int:
    """How few of the fastest cards are not enough for a file."""
    return bisect_left(range(useful), total, key=lambda k: sums[k] - setup * (k + 1))
