"""Runs a day: what the formulas say, what drawn days keep, and how many cards a number of runs takes."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from test_selection.catalog import CatalogTest
from test_selection.forecast import (
    DAY_S,
    Conditions,
    Forecast,
    Needed,
    Work,
    doublings,
    forecast,
    limit_of,
    needed,
    no_gain_beyond,
    paper_round,
)
from test_selection.loads import FileLoad, file_loads

QUIET = Conditions(sigma_file=0, sigma_speed=0)


def load(name: str, setup: float, seconds: Sequence[float]) -> FileLoad:
    ordered = tuple(sorted(seconds, reverse=True))
    ids = tuple(f"{name}::{number}" for number in range(len(ordered)))
    return FileLoad(file=name, setup_s=setup, seconds=ordered, ids=ids, total_s=sum(ordered))


def work(files: int = 4, tests: int = 40, seconds: float = 1.0, setup: float = 2.0) -> Work:
    rows = [
        CatalogTest(id=f"t{file}.py::T::test_{number}", node="", file=f"t{file}.py")
        for file in range(files)
        for number in range(tests)
    ]
    test_s = {row.id: seconds for row in rows}
    file_s = {row.file: setup for row in rows}
    return Work(tests=rows, test_s=test_s, file_s=file_s, loads=file_loads(rows, test_s, file_s))


def seeded(number: int) -> random.Random:
    return random.Random(f"7-{number}")  # noqa: S311  # a seeded draw


def carries(what: Work, cards: int, conditions: Conditions = QUIET, draws: int = 3) -> Forecast:
    return forecast(what, cards, conditions, draws=draws, randomness=seeded)


def takes(what: Work, runs: float, conditions: Conditions, draws: int = 5) -> Needed:
    return needed(
        what, DAY_S / runs, conditions, at=lambda up: carries(what, conditions.owned(up), conditions, draws)
    )


times = st.lists(st.floats(0, 50), min_size=1, max_size=20)
loads = st.lists(st.tuples(st.floats(0, 20), times), min_size=1, max_size=5).map(
    lambda rows: [load(f"f{number}.py", *row) for number, row in enumerate(rows)]
)
conditions = st.builds(
    Conditions,
    queue_s=st.floats(0, 1e4),
    startup_s=st.floats(0, 1e3),
    report_s=st.floats(0, 1e3),
    faults_h=st.floats(0, 1),
    repair_h=st.floats(0, 100),
)


@given(loads, st.integers(1, 300), st.integers(1, 300), st.floats(0, 1e4))
def test_more_cards_never_carry_fewer_runs_on_paper(
    found: list[FileLoad], one: int, other: int, queue: float
) -> None:
    few, many = sorted((one, other))
    quiet = Conditions(queue_s=queue)
    assert paper_round(found, many, quiet) <= paper_round(found, few, quiet) * (1 + 1e-9)


@given(loads, st.integers(1, 300), st.floats(0, 1), st.floats(0, 1), st.floats(0, 100))
def test_more_faults_never_carry_more_runs(
    found: list[FileLoad], cards: int, one: float, other: float, repair: float
) -> None:
    few, many = (Conditions(faults_h=rate, repair_h=repair) for rate in sorted((one, other)))
    assert many.up(cards) <= few.up(cards)
    assert paper_round(found, cards, many) >= paper_round(found, cards, few) * (1 - 1e-9)


@given(conditions, st.integers(1, 5000))
@example(Conditions(faults_h=1.0, repair_h=2.0), 1)
def test_of_the_cards_one_must_own_enough_are_up_and_no_fewer_would_do(found: Conditions, up: int) -> None:
    owned = found.owned(up)
    assert found.up(owned) >= up
    assert owned == 1 or found.up(owned - 1) < up


def test_availability_is_the_share_of_mean_time_between_failures() -> None:
    # A fault in 1,000 hours, a day until it is repaired: 1000 / 1024 of the time.
    found = Conditions(faults_h=0.001, repair_h=24)
    assert found.availability == pytest.approx(1000 / 1024)
    assert found.up(2048) == 2000
    assert found.owned(2000) == 2048
    assert Conditions().up(24) == 24


def test_runs_a_day_are_the_day_over_a_round() -> None:
    found = carries(work(), 4)
    assert found.runs(0.5) == DAY_S / found.round_s(0.5)
    assert math.isinf(carries(work(files=0), 4).runs(0.5))


def test_a_quiet_day_takes_what_was_planned() -> None:
    found = carries(work(), 4)
    assert found.makespan(0.5) == pytest.approx(42.0, abs=0.5)
    assert found.makespan(0.9) == found.makespan(0.5)
    assert found.busy == pytest.approx(4, rel=0.02)
    assert found.limited_by == "cards"


def test_start_up_queue_and_report_are_in_the_round() -> None:
    slow = Conditions(queue_s=100, startup_s=30, report_s=50, sigma_file=0, sigma_speed=0)
    found = carries(work(), 4, slow)
    starts = [day.last_start_s for day in found.days]
    assert min(starts) > 0
    assert found.round_s(0.9) == pytest.approx(100 + found.makespan(0.9) + 50)
    assert found.makespan(0.9) == pytest.approx(max(starts) + 42, abs=1)
    assert found.limited_by == "waiting"


def test_cards_that_fail_take_longer_and_lose_no_test() -> None:
    mortal = Conditions(faults_h=60, repair_h=0, startup_s=5, pod_cards=1, sigma_file=0, sigma_speed=0)
    found = carries(work(), 4, mortal, draws=8)
    assert sum(day.replaced for day in found.days) > 0
    assert found.makespan(0.9) > carries(work(), 4).makespan(0.9)
    # Nothing is lost: every day still does all the work there is.
    assert all(day.work_s >= 160 - 1e-6 for day in found.days)


def test_what_a_dead_card_had_begun_is_finished_by_another() -> None:
    # One card, pieces of many tests: whatever moment it dies at, all the tests' seconds are worked.
    mortal = Conditions(faults_h=30, pod_cards=1, sigma_file=0, sigma_speed=0)
    found = carries(work(files=1, tests=400), 1, mortal, draws=20)
    assert sum(day.replaced for day in found.days) > 5
    assert all(day.work_s >= 400 - 1e-6 for day in found.days)
    # What was under way is done again, and the file is set up again.
    assert all(day.ends_s <= 402 + 402 / 16 + 2 + 10 for day in found.days)


def test_the_same_seed_draws_the_same_days() -> None:
    usual = Conditions(startup_s=60, faults_h=0.1, repair_h=1)
    assert carries(work(), 16, usual) == carries(work(), 16, usual)


@pytest.mark.parametrize(
    ("files", "cards", "makespan", "waits", "binds"),
    [
        ([("a", 0.0, [10.0] * 4)], 8, 10.0, 0.0, "longest test"),
        ([("a", 0.0, [1.0] * 400)], 4, 101.0, 0.0, "cards"),
        ([("a", 0.0, [1.0] * 400)], 4, 200.0, 0.0, "load balance"),
        ([("a", 9.0, [0.1] * 10), ("b", 9.0, [0.1] * 10)], 1, 20.0, 0.0, "set-up"),
        ([("a", 0.0, [1.0] * 400)], 4, 100.0, 100.0, "waiting"),
        ([], 4, 0.0, 0.0, "nothing"),
    ],
)
def test_what_binds_is_said(
    files: list[tuple[str, float, list[float]]], cards: int, makespan: float, waits: float, binds: str
) -> None:
    found = [load(*one) for one in files]
    assert limit_of(found, cards, makespan_s=makespan, waits_s=waits) == binds


def test_the_cards_that_runs_a_day_take_keep_it_on_drawn_days() -> None:
    heavy = work(files=8, tests=200, seconds=60)
    usual = Conditions(queue_s=600, startup_s=120, report_s=60, faults_h=0.001, repair_h=24)
    three = takes(heavy, 3, usual, draws=5)
    four = takes(heavy, 4, usual, draws=5)
    assert three.found is not None
    assert four.found is not None
    assert three.found.round_s(0.9) <= 8 * 3600
    assert four.found.round_s(0.9) <= 6 * 3600
    assert 1 < three.found.cards <= four.found.cards
    # A good deal fewer do not keep it.
    fewer = forecast(heavy, three.found.cards * 3 // 4, usual, draws=5, randomness=seeded)
    assert fewer.round_s(0.9) > 8 * 3600


def test_no_number_of_cards_is_told_with_its_reason() -> None:
    waits = takes(work(), 4, Conditions(queue_s=7 * 3600), draws=2)
    assert waits.found is None
    assert waits.refusal == "queue wait, start-up and report alone take longer than a run may take"
    long = takes(work(tests=1, seconds=30 * 3600), 3, QUIET, draws=2)
    assert long.found is None
    assert "the longest test takes" in long.refusal
    slow = Conditions(startup_s=7 * 3600, pod_cards=1, sigma_file=0, sigma_speed=0)
    never = takes(work(files=1, tests=2, seconds=3000), 3, slow, draws=5)
    assert never.found is None
    assert "cards need" in never.refusal
    assert "limited by" in never.refusal


def test_twice_the_cards_bring_nothing_beyond_the_longest_test() -> None:
    assert no_gain_beyond([load("a.py", 0.0, [10.0] * 16)], 1024) == 16
    assert no_gain_beyond([], 64) == 1
    assert no_gain_beyond([load("a.py", 0.0, [1.0] * 1000)], 64) == 64


def test_counts_double_up_to_the_most() -> None:
    assert doublings(1) == [1]
    assert doublings(12) == [1, 2, 4, 8, 12]
