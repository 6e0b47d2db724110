"""What a plan does not know: how long tests really take, how fast cards are, when they start and die.

A `World` says how far off things may be, and `draw_truth` makes one day of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from test_selection.durations import UNKNOWN_TEST_S
from test_selection.plan import Plan

HOUR_S = 3600.0


class Randomness(Protocol):
    """What is used of a `random.Random`, which the caller makes from a seed."""

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        """A normal draw."""

    def expovariate(self, lambd: float) -> float:
        """An exponential draw of mean 1 / lambd."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """How far off things may be.

    Attributes:
        sigma_file: a file's tests take exp(N(0, sigma)) times what was expected, all of them the same.
        sigma_speed: a card works exp(N(0, sigma)) times as fast.
        speeds: the cards' speeds, where they are given, in the order of shards; repeated from the front.
        startup_s: mean seconds until a card's worker has started (exponential).
        faults_h: faults of a card in an hour (exponential), each of which is its end.
    """

    sigma_file: float = 0.0
    sigma_speed: float = 0.0
    speeds: tuple[float, ...] = ()
    startup_s: float = 0.0
    faults_h: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """One day.

    Attributes:
        test_s: true seconds of each test, on a card of speed 1, by canonical id.
        setup_s: set-up seconds of each file, on a card of speed 1.
        speeds: of each card.
        starts_at: when each card's worker has started, in seconds.
        dies_at: when each card dies; infinite for most.
    """

    test_s: Mapping[str, float]
    setup_s: Mapping[str, float]
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
    given = world.speeds or (1.0,)
    cards = range(len(plan.shards))
    return Truth(
        test_s={
            name: test_s.get(name, UNKNOWN_TEST_S) * factors[file] for name, file in sorted(file_of.items())
        },
        setup_s={file: file_s.get(file, 0.0) for file in files},
        speeds=tuple(given[card % len(given)] * _factor(world.sigma_speed, randomness) for card in cards),
        starts_at=tuple(after(world.startup_s, randomness) for _ in cards),
        dies_at=tuple(dies_after(world.faults_h, randomness) for _ in cards),
    )


def after(mean_s: float, randomness: Randomness) -> float:
    """An exponential draw of so many seconds on average; 0 where they are 0."""
    return randomness.expovariate(1 / mean_s) if mean_s else 0.0


def dies_after(faults_h: float, randomness: Randomness) -> float:
    """Seconds until a card of so many faults an hour dies; infinite where it has none."""
    return randomness.expovariate(faults_h / HOUR_S) if faults_h else math.inf


def _factor(sigma: float, randomness: Randomness) -> float:
    return math.exp(randomness.gauss(0.0, sigma)) if sigma else 1.0
