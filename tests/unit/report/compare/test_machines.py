"""Noise alone makes no more findings than agreed; what is no noise is found."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.report.compare.machines import FALSE_ALARMS, LEAST, limit_of, median, spread_of

Noise = Callable[[random.Random], float]


def normal(rng: random.Random) -> float:
    return rng.gauss(0, 0.1)


def exponential(rng: random.Random) -> float:
    """As far out as a ratio whose tail falls by a power: the heaviest that is agreed on."""
    return rng.expovariate(10) * rng.choice((-1, 1))


def stalling(rng: random.Random) -> float:
    """Now and then a machine stands still."""
    stalled = rng.expovariate(0.7) * rng.choice((-1, 1)) if rng.random() < 0.002 else 0.0
    return rng.gauss(0, 0.1) + stalled


def alarms(noise: Noise, number: int, rounds: int) -> float:
    """Findings a comparison, where nothing changed."""
    rng = random.Random(number)  # noqa: S311  # the same each time
    found = 0
    for _ in range(rounds):
        values = [noise(rng) for _ in range(number)]
        limit = limit_of(values)
        found += sum(abs(one) > limit for one in values)
    return found / rounds


@pytest.mark.parametrize(
    ("noise", "number", "rounds"),
    [
        (normal, 12, 500), (normal, 100, 300), (normal, 3_000, 30),
        (exponential, 12, 500), (exponential, 30, 500), (exponential, 100, 300), (exponential, 1_000, 60),
        (exponential, 10_000, 10),
    ],
)  # fmt: skip
def test_by_noise_alone_no_more_is_found_than_agreed(noise: Noise, number: int, rounds: int) -> None:
    assert alarms(noise, number, rounds) <= FALSE_ALARMS


def test_of_machines_that_stall_a_fraction_is_found() -> None:
    """A stall of one test looks like a change of it: where there are many, the tail says so."""
    stalls = 0.002 * 30_000
    assert alarms(stalling, 30_000, 4) < stalls / 4


def test_a_change_is_found_whatever_else_is_noise() -> None:
    rng = random.Random(1)  # noqa: S311  # the same each time
    values = [normal(rng) for _ in range(3_000)]
    limit = limit_of([*values, math.log(2.5)])
    assert limit < math.log(2.5)
    assert limit < 8 * 0.1


def test_many_changes_on_one_side_do_not_hide_each_other() -> None:
    rng = random.Random(2)  # noqa: S311  # the same each time
    values = [normal(rng) for _ in range(3_000)] + [math.log(3)] * 300
    assert limit_of(values) < math.log(3)


def test_of_too_few_values_nobody_knows_what_is_usual() -> None:
    assert limit_of([0.0] * (LEAST - 1)) == math.inf
    assert limit_of([0.0] * LEAST) == 0.0


@given(st.lists(st.floats(min_value=-20, max_value=20), min_size=LEAST, max_size=300))
def test_a_limit_is_the_same_whichever_run_comes_first_and_grows_with_the_noise(values: list[float]) -> None:
    limit = limit_of(values)
    assert limit >= 0
    assert limit == limit_of([-one for one in values]) == limit_of(values[::-1])
    assert limit_of([2 * one for one in values]) == pytest.approx(2 * limit)
    # Who accepts fewer false alarms has to wait for more.
    assert limit_of(values, alarms=FALSE_ALARMS / 10) >= limit


def test_a_spread_is_a_standard_deviation_that_no_single_value_moves() -> None:
    rng = random.Random(3)  # noqa: S311  # the same each time
    values = [rng.gauss(0, 1) for _ in range(10_000)]
    assert spread_of(values) == pytest.approx(1, rel=0.05)
    assert spread_of([*values, 1e9]) == pytest.approx(1, rel=0.05)
    assert spread_of([], least=0.5) == 0.5
    assert median([]) == 0.0
