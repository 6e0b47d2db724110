"""What a plan does not know: how long tests really take, how fast cards are, what breaks and when.

A `World` says how far off things may be, and `draw_truth` makes one day of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

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
