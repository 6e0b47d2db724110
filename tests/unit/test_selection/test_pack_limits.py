"""Plans keep to their limits, lose nothing by them, and stay the same whatever the order of the tests."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.catalog import CatalogTest
from test_selection.errors import UsageError
from test_selection.limits import Limits
from test_selection.pack import make_plan
from test_selection.plan import Plan, read_plan, write_plan

Files = Mapping[str, tuple[float, Sequence[float]]]

seconds = st.sampled_from([0.0, 0.5, 1.0, 3.0]) | st.floats(0, 50)
files_of = st.dictionaries(
    st.sampled_from([f"f{n}.py" for n in range(9)]),
    st.tuples(seconds, st.lists(seconds, min_size=1, max_size=12)),
    min_size=1,
    max_size=7,
)


def ids_of(files: Files) -> list[str]:
    return [f"{file}::t{n:02}" for file, (_, times) in files.items() for n in range(len(times))]


def plan_of(files: Files, shards: int, limits: Limits, order: random.Random | None = None) -> Plan:
    test_s = {f"{file}::t{n:02}": one for file, (_, times) in files.items() for n, one in enumerate(times)}
    tests = [CatalogTest(id=name, node=name, file=name.partition("::")[0]) for name in test_s]
    if order:
        order.shuffle(tests)
    return make_plan(
        tests,
        test_s=test_s,
        file_s={file: setup for file, (setup, _) in files.items()},
        shards=shards,
        limits=limits,
    )


@st.composite
def limited(draw: st.DrawFn) -> tuple[Files, int, Limits]:
    """Work, a number of cards and limits that can be kept."""
    files = draw(files_of)
    shards = draw(st.integers(1, 12) | st.sampled_from([64, 512, 2048]))
    ids = ids_of(files)
    some = st.lists(st.sampled_from(ids), unique=True, max_size=6)
    alone = draw(some)
    chained = [name for name in draw(some) if name not in alone]
    speeds: tuple[float, ...] = ()
    if draw(st.booleans()):
        few = draw(st.lists(st.sampled_from([0.25, 0.5, 0.9, 1.0, 1.0]), min_size=1, max_size=8))
        speeds = tuple(few[number % len(few)] for number in range(shards))
    wide = draw(st.dictionaries(st.sampled_from(ids), st.integers(1, min(4, shards)), max_size=4))
    least = -(-len(files) // shards)
    # Wide shards leave fewer of them, so whether a number of files fits is asked without them.
    most = None if wide else draw(st.none() | st.integers(least, least + 3))
    limits = Limits(
        alone=alone,
        in_order={name: draw(st.sampled_from(["x", "y"])) for name in chained},
        cards=wide,
        speeds=speeds,
        max_files=most,
        timeouts={next(iter(files)): 60.0},
    )
    return files, shards, limits


@given(limited())
def test_shards_are_disjoint_and_make_up_the_selection_under_any_limits(
    case: tuple[Files, int, Limits],
) -> None:
    files, shards, limits = case
    plan = plan_of(files, shards, limits)
    assert sorted(plan.ids) == sorted(ids_of(files))
    assert sum(shard.cards for shard in plan.shards) <= shards
    assert [shard.index for shard in plan.shards] == list(range(len(plan.shards)))
    assert plan.bound_s <= plan.makespan_s == max(shard.expected_s for shard in plan.shards)


@given(limited(), st.randoms())
def test_the_order_of_the_tests_changes_nothing_under_any_limits(
    case: tuple[Files, int, Limits], order: random.Random
) -> None:
    assert plan_of(*case) == plan_of(*case, order)


@given(limited())
def test_expected_seconds_are_the_tests_and_every_set_up_over_the_speed(
    case: tuple[Files, int, Limits],
) -> None:
    files, shards, limits = case
    for shard in plan_of(files, shards, limits).shards:
        work = sum(files[name.partition("::")[0]][1][int(name[-2:])] for name in shard.ids)
        work += sum(files[group.file][0] for group in shard.groups)
        assert shard.expected_s == pytest.approx(work / shard.speed)


@given(limited())
def test_what_runs_alone_has_a_group_of_its_own(case: tuple[Files, int, Limits]) -> None:
    groups = [group for shard in plan_of(*case).shards for group in shard.groups]
    assert {group.ids[0] for group in groups if group.alone} == set(case[2].alone)
    assert all(len(group.ids) == 1 for group in groups if group.alone)


@given(limited())
def test_a_chain_stays_together_in_the_order_given(case: tuple[Files, int, Limits]) -> None:
    files, shards, limits = case
    plan = plan_of(files, shards, limits)
    rows: dict[tuple[str, str], list[str]] = {}
    for name, chain in limits.in_order.items():
        rows.setdefault((name.partition("::")[0], chain), []).append(name)
    for names in rows.values():
        group = next(group for shard in plan.shards for group in shard.groups if names[0] in group.ids)
        at = group.ids.index(names[0])
        assert list(group.ids[at : at + len(names)]) == names
        assert len(names) == 1 or (at, len(names)) in group.chains


@given(limited())
def test_tests_run_on_shards_with_the_cards_they_need(case: tuple[Files, int, Limits]) -> None:
    for shard in plan_of(*case).shards:
        assert shard.cards >= max((case[2].cards.get(name, 1) for name in shard.ids), default=1)


@given(limited())
def test_shards_have_the_speeds_of_the_cards(case: tuple[Files, int, Limits]) -> None:
    files, shards, limits = case
    given_speeds = list(limits.speeds or (1.0,) * shards)
    for shard in plan_of(files, shards, limits).shards:
        # A wide shard is as fast as the slowest of its cards.
        assert sum(speed >= shard.speed for speed in given_speeds) >= shard.cards
        given_speeds.remove(shard.speed)


@given(limited())
def test_no_shard_has_more_files_than_allowed(case: tuple[Files, int, Limits]) -> None:
    most = case[2].max_files
    for shard in plan_of(*case).shards:
        assert most is None or len({group.file for group in shard.groups}) <= most


@given(limited())
def test_a_file_takes_its_time_out_along(case: tuple[Files, int, Limits]) -> None:
    for shard in plan_of(*case).shards:
        assert all(group.timeout_s == case[2].timeouts.get(group.file) for group in shard.groups)


@given(limited())
def test_a_limited_plan_comes_back_from_its_file(case: tuple[Files, int, Limits]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        plan = plan_of(*case)
        write_plan(path, plan)
        again = read_plan(path)
        assert [shard.groups for shard in again.shards] == [shard.groups for shard in plan.shards]
        assert [(one.cards, one.speed) for one in again.shards] == [
            (one.cards, one.speed) for one in plan.shards
        ]


def test_a_slow_card_gets_less() -> None:
    plan = plan_of({"a.py": (1.0, [0.1] * 600)}, 2, Limits(speeds=(0.5, 1.0)))
    work = {shard.speed: len(shard.ids) for shard in plan.shards}
    assert work[0.5] == pytest.approx(200, abs=12)
    assert plan.makespan_s <= 1.01 * plan.bound_s


def test_a_wide_test_has_both_its_cards_and_narrow_ones_use_the_rest() -> None:
    files = {"w.py": (1.0, [10.0] * 4), "n.py": (1.0, [1.0] * 200)}
    limits = Limits(cards={f"w.py::t{n:02}": 2 for n in range(4)})
    plan = plan_of(files, 6, limits)
    assert sum(shard.cards for shard in plan.shards) == 6
    assert plan.makespan_s <= 1.05 * plan.bound_s


def test_few_files_a_shard_keep_files_together() -> None:
    files = {f"f{n}.py": (1.0, [1.0] * (n + 1)) for n in range(8)}
    plan = plan_of(files, 4, Limits(max_files=2))
    assert all(len(shard.groups) <= 2 for shard in plan.shards)
    assert plan.makespan_s <= 13


@pytest.mark.parametrize(
    ("limits", "message", "remedy"),
    [
        (Limits(max_files=1), "3 files do not fit on 2 cards with at most 1 files a shard", "allow 2 files"),
        (Limits(cards={"f0.py::t00": 3}), "needs 3 cards at once and there are 2", "plan for 3 cards"),
        (Limits(speeds=(1.0,)), "1 speeds are given for 2 cards", "one factor for each card"),
        (
            Limits(alone=["f0.py::t00"], in_order={"f0.py::t00": "c", "f0.py::t01": "c"}),
            "is to run alone and in the chain 'c'",
            "take it out of one of the two",
        ),
        (
            Limits(cards={f"f{n}.py::t00": 2 for n in range(2)}, max_files=2),
            "3 files, some on several cards at once, do not fit on 2 cards",
            "allow 3 files a shard or more",
        ),
    ],
)
def test_limits_that_cannot_be_kept_are_refused(limits: Limits, message: str, remedy: str) -> None:
    files = {f"f{n}.py": (1.0, [1.0, 1.0]) for n in range(3)}
    with pytest.raises(UsageError, match=message) as caught:
        plan_of(files, 2, limits)
    assert remedy in str(caught.value)


@pytest.mark.parametrize(
    ("limits", "binds"),
    [
        (Limits(in_order={f"f0.py::t{n:02}": "c" for n in range(20)}), "chain"),
        (Limits(max_files=1), "files a shard"),
        (Limits(cards={f"f{n}.py::t{k:02}": 3 for n in range(3) for k in range(20)}), "wide tests"),
    ],
)
def test_a_limit_that_binds_the_plan_is_named(limits: Limits, binds: str) -> None:
    assert plan_of({f"f{n}.py": (0.1, [1.0] * 20) for n in range(3)}, 4, limits).binds == binds
