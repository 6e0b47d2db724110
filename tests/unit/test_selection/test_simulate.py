"""Days on paper: nothing lost, the same seed the same day, the plan's makespan where all is as planned."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.catalog import CatalogTest
from test_selection.pack import make_plan
from test_selection.plan import Plan
from test_selection.simulate import Outcome, modes, simulate
from test_selection.simulated_day import (
    Truth,
    Uncertainty,
    _files,
    _plain_bound,
    draw_truth,
    true_bound,
    weigh,
)

Work = tuple[Plan, dict[str, float], dict[str, float]]

seconds = st.sampled_from([0.0, 0.5, 1.0, 2.0]) | st.floats(0, 50)
files = st.dictionaries(
    st.sampled_from([f"f{n}.py" for n in range(6)]),
    st.tuples(seconds, st.lists(seconds, min_size=1, max_size=12)),
    max_size=5,
)
worlds = st.builds(
    Uncertainty,
    sigma_file=st.sampled_from([0.0, 0.3]),
    sigma_speed=st.sampled_from([0.0, 0.1]),
    faults_h=st.sampled_from([0.0, 30.0, 3600.0]),
    startup_s=st.sampled_from([0.0, 30.0]),
)


def planned(table: Mapping[str, tuple[float, Sequence[float]]], shards: int) -> Work:
    tests, test_s = [], {}
    for file, (_, values) in table.items():
        for number, value in enumerate(values):
            name = f"{file}::test_{number}"
            tests.append(CatalogTest(id=name, node=name, file=file))
            test_s[name] = value
    file_s = {file: setup for file, (setup, _) in table.items()}
    return make_plan(tests, test_s=test_s, file_s=file_s, shards=shards), test_s, file_s


def days(
    work: Work,
    world: Uncertainty,
    seed: int = 0,
    *,
    ways: Sequence[int | None] = (*modes(2).values(),),
    dies: Mapping[int, float] | None = None,
    speeds: Sequence[float] | None = None,
) -> list[Outcome]:
    plan, test_s, file_s = work
    truth = truth_of(work, world, seed)
    if speeds is not None:
        truth = replace(truth, speeds=tuple(speeds))
    if dies is not None:
        ends = tuple(dies.get(card, math.inf) for card in range(len(plan.shards)))
        truth = replace(truth, dies_at=ends)
    return simulate(plan, truth, test_s=test_s, file_s=file_s, ways=ways)


def truth_of(work: Work, world: Uncertainty, seed: int = 0) -> Truth:
    plan, test_s, file_s = work
    chance = random.Random(seed)  # noqa: S311
    return draw_truth(
        plan.file_of, len(plan.shards), test_s=test_s, file_s=file_s, off=world, randomness=chance
    )


@given(files, st.integers(1, 12))
def test_where_all_is_as_planned_a_static_plan_takes_its_makespan(
    table: Mapping[str, tuple[float, Sequence[float]]], shards: int
) -> None:
    work = planned(table, shards)
    static = days(work, Uncertainty())[0]
    assert static.makespan_s == pytest.approx(work[0].makespan_s, rel=1e-12)
    assert static.stolen == 0


@given(files, st.integers(1, 12), worlds, st.integers(0, 5))
def test_every_test_runs_once_or_is_counted_as_not_run(
    table: Mapping[str, tuple[float, Sequence[float]]], shards: int, world: Uncertainty, seed: int
) -> None:
    work = planned(table, shards)
    for outcome in days(work, world, seed):
        ran = [name for segment in outcome.segments for name in segment.piece.ids]
        assert Counter([*ran, *outcome.not_run]) == Counter(work[0].ids)


@given(files, st.integers(1, 12), worlds, st.integers(0, 5))
def test_no_day_on_which_all_ran_ends_before_its_bound(
    table: Mapping[str, tuple[float, Sequence[float]]], shards: int, world: Uncertainty, seed: int
) -> None:
    for outcome in days(planned(table, shards), world, seed):
        if not outcome.not_run:
            assert outcome.makespan_s >= outcome.bound_s * (1 - 1e-6)
        assert 0 <= outcome.busy <= 1 + 1e-9


@given(files, st.integers(1, 12), worlds)
def test_no_card_does_two_things_at_once_or_works_after_its_death(
    table: Mapping[str, tuple[float, Sequence[float]]], shards: int, world: Uncertainty
) -> None:
    work = planned(table, shards)
    truth = truth_of(work, world)
    for outcome in days(work, world):
        free = list(truth.starts_at)
        for one in outcome.segments:
            assert free[one.card] <= one.starts_at + 1e-9
            assert one.starts_at <= one.ready_at + 1e-9
            assert one.ready_at <= one.ends_at + 1e-9
            assert one.ends_at <= truth.dies_at[one.card] + 1e-9
            free[one.card] = one.ends_at


@given(files, st.integers(1, 6), worlds)
def test_with_a_living_card_that_may_steal_all_is_run(
    table: Mapping[str, tuple[float, Sequence[float]]], shards: int, world: Uncertainty
) -> None:
    dies = {card: 3.0 * card for card in range(1, shards)}
    assert days(planned(table, shards), world, dies=dies)[-1].not_run == ()


def test_the_same_seed_gives_the_same_day_and_another_seed_another() -> None:
    work = planned({"a.py": (2.0, [3.0] * 40), "b.py": (5.0, [1.0] * 40)}, 8)
    world = Uncertainty(sigma_file=0.3, sigma_speed=0.1, faults_h=100.0)
    assert days(work, world, 1) == days(work, world, 1)
    assert days(work, world, 1) != days(work, world, 2)


def test_how_a_plan_splits_the_tests_does_not_change_what_they_take() -> None:
    table = {"a.py": (2.0, [3.0] * 10), "b.py": (5.0, [1.0] * 10)}
    world = Uncertainty(sigma_file=0.3)
    assert truth_of(planned(table, 2), world).test_s == truth_of(planned(table, 7), world).test_s


def test_a_late_shard_is_helped_by_cards_that_have_its_file() -> None:
    # One card works at a tenth of the speed; the other nine take what it would have.
    work = planned({"a.py": (1.0, [1.0] * 400)}, 10)
    static, _, across = days(work, Uncertainty(), speeds=(0.1, *[1.0] * 9))
    assert static.makespan_s == pytest.approx(410.0)
    assert across.makespan_s < 60
    assert across.stolen > 0


def test_the_tests_of_a_dead_card_are_run_by_others_or_counted() -> None:
    work = planned({"a.py": (1.0, [1.0] * 40)}, 4)
    static, _, across = days(work, Uncertainty(), dies={2: 5.0})
    assert len(static.not_run) > 0
    assert across.not_run == ()


def test_what_a_card_that_never_comes_up_was_to_do_is_done_by_others() -> None:
    work = planned({"a.py": (1.0, [1.0] * 40), "b.py": (1.0, [1.0] * 39)}, 2)
    world = Uncertainty(startup_s=100_000.0)
    static, across = days(work, world, 3, ways=(1, None))
    first, last = sorted(truth_of(work, world, 3).starts_at)
    assert static.makespan_s > last
    assert across.makespan_s < first + 500


def test_a_card_that_works_is_not_taken_for_one_that_has_not_started() -> None:
    # Else everybody pays set-ups to help shards that need no help.
    work = planned({f"f{n:02}.py": (15.0, [1.0] * 60) for n in range(40)}, 48)
    across = days(work, Uncertainty(sigma_file=0.3, sigma_speed=0.1))[-1]
    assert across.ratio < 1.25


def test_cards_that_all_die_leave_no_bound() -> None:
    work = planned({"a.py": (1.0, [1.0] * 40)}, 3)
    outcome = days(work, Uncertainty(), dies={0: 1.0, 1: 2.0, 2: 3.0})[-1]
    assert outcome.bound_s == float("inf")
    assert len(outcome.not_run) > 0


def test_a_plan_of_nothing_takes_no_time() -> None:
    for outcome in days(planned({}, 3), Uncertainty(sigma_file=0.3, faults_h=60.0)):
        assert (outcome.makespan_s, outcome.bound_s, outcome.ratio, outcome.busy) == (0.0, 0.0, 1.0, 0.0)


def test_the_true_bound_counts_a_set_up_for_every_card_that_is_used() -> None:
    # 100 s of tests on 10 cards: no card can do without the 5 s.
    work = planned({"a.py": (5.0, [1.0] * 100)}, 10)
    assert true_bound(work[0], truth_of(work, Uncertainty())) == pytest.approx(15.0, rel=1e-6)


@given(st.floats(0, 1e4), st.floats(0, 1e4), st.floats(0, 1e4), st.floats(0, 5))
def test_what_fits_on_a_card_weighs_no_more_than_the_card(
    one: float, other: float, from_s: float, surcharge: float
) -> None:
    both = weigh(one, from_s, surcharge) + weigh(other, from_s, surcharge)
    assert both <= weigh(one + other, from_s, surcharge) * (1 + 1e-9)


def test_not_every_file_can_have_the_fastest_cards() -> None:
    # A file fits whole on one of the fastest cards; the plain bound lets every file have it.
    work = planned({f"f{n:02}.py": (10.0, [1.0] * 65) for n in range(33)}, 40)
    truth = replace(truth_of(work, Uncertainty()), speeds=tuple(0.8 + 0.01 * n for n in range(40)))
    files = _files(work[0], truth)
    assert true_bound(work[0], truth) > _plain_bound(files, truth) * 1.01


def test_a_card_learns_from_a_short_piece_before_it_begins_a_long_test() -> None:
    work = planned({"a.py": (1.0, [30.0, 1.0, 1.0, 1.0])}, 1)
    first, second = [one for one in days(work, Uncertainty())[-1].segments if one.piece.ids][:2]
    assert first.piece.expected_s <= 1.0
    assert second.piece.expected_s == 30.0


def test_nobody_waits_for_a_set_up_that_comes_too_late() -> None:
    for seed in range(20):
        for outcome in days(planned({"a.py": (9.0, [1.0] * 12)}, 4), Uncertainty(sigma_speed=0.5), seed):
            ran = [one.ends_at for one in outcome.segments if one.piece.ids]
            assert outcome.makespan_s == max(ran)
            assert outcome.busy <= 1 + 1e-9


def test_stealing_across_hosts_holds_the_promise_on_a_small_tree() -> None:
    rnd = random.Random(7)  # noqa: S311
    table = {f"f{n:02}.py": (5.0, [rnd.expovariate(1.0) for _ in range(300)]) for n in range(40)}
    work = planned(table, 48)
    static, hosts, across = days(
        work, Uncertainty(sigma_file=0.3, sigma_speed=0.1), ways=(*modes(8).values(),)
    )
    assert across.ratio < 1.10
    assert across.ratio < hosts.ratio < static.ratio


def test_cards_that_set_up_late_files_are_few_and_come_in_time() -> None:
    # Long set-ups, and files that turn out long when most of the day is over.
    rnd = random.Random(7)  # noqa: S311
    counts = [rnd.choice([5, 10, 20, 200]) for _ in range(120)]
    table = {f"f{n:03}.py": (15.0, [rnd.expovariate(1.0) for _ in range(k)]) for n, k in enumerate(counts)}
    work = planned(table, 96)
    groups = sum(len(shard.groups) for shard in work[0].shards)
    for seed in range(4):
        across = days(work, Uncertainty(sigma_file=0.3, sigma_speed=0.1), seed)[-1]
        assert across.ratio < 1.13
        assert sum(not one.piece.ids for one in across.segments) < 1.2 * groups
