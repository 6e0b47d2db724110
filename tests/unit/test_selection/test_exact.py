"""Few tests are split as well as can be, and no bound is above the best split there is."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from test_selection.bound import lower_bound
from test_selection.catalog import CatalogTest
from test_selection.counting import counts_too_many, groups_too_many
from test_selection.groups import FINE, needs_more
from test_selection.limits import Limits
from test_selection.loads import FileLoad, file_loads
from test_selection.pack import make_plan
from test_selection.plan import Plan
from test_selection.sharper import counted_bound, is_out_of_reach, on_grid, sharper_bound
from test_selection.whole_tests import WholeTests, fitting

Files = Sequence[tuple[float, Sequence[float]]]

values = st.sampled_from([0.0, 0.5, 1.0, 1.1, 2.0, 3.0]) | st.floats(0, 10)
few_files = st.lists(st.tuples(values, st.lists(values, min_size=1, max_size=5)), min_size=1, max_size=5)


def work_of(files: Files) -> tuple[list[CatalogTest], dict[str, float], dict[str, float]]:
    test_s = {f"f{f}.py::t{n}": one for f, (_, times) in enumerate(files) for n, one in enumerate(times)}
    tests = [CatalogTest(id=name, node=name, file=name.partition("::")[0]) for name in test_s]
    return tests, test_s, {f"f{f}.py": setup for f, (setup, _) in enumerate(files)}


def plan_of(files: Files, shards: int, limits: Limits | None = None) -> Plan:
    tests, test_s, file_s = work_of(files)
    return make_plan(tests, test_s=test_s, file_s=file_s, shards=shards, limits=limits or Limits())


def loads_of(files: Files) -> list[FileLoad]:
    return file_loads(*work_of(files))


def best_of_all(files: Files, shards: int, speeds: Sequence[float] = ()) -> float:
    """The least makespan, by trying every assignment of tests to shards."""
    tests = [(f, one) for f, (_, times) in enumerate(files) for one in times]
    best = float("inf")
    for where in itertools.product(range(shards), repeat=len(tests)):
        work = [0.0] * shards
        for (_, seconds), shard in zip(tests, where, strict=True):
            work[shard] += seconds
        for shard, file in {(shard, file) for (file, _), shard in zip(tests, where, strict=True)}:
            work[shard] += files[file][0]
        best = min(best, max(one / (speeds[at] if speeds else 1) for at, one in enumerate(work)))
    return best


@st.composite
def tried_out(draw: st.DrawFn) -> tuple[Files, int]:
    """Work so small that every assignment can be tried: at most 4,096 of them."""
    files = draw(few_files)
    shards = draw(st.integers(1, 4))
    most = {1: 10, 2: 10, 3: 7, 4: 6}[shards]
    kept: list[tuple[float, list[float]]] = []
    for setup, times in files:
        left = most - sum(len(one) for _, one in kept)
        if left:
            kept.append((setup, list(times[:left])))
    return kept, shards


@given(tried_out())
@example(([(4.0, [0.5, 2.0]), (0.0, [0.5, 4.0, 4.0])], 3))
def test_no_split_of_up_to_ten_tests_is_better(case: tuple[Files, int]) -> None:
    best = best_of_all(*case)
    plan = plan_of(*case)
    assert plan.makespan_s == pytest.approx(best, abs=1e-6)
    assert plan.bound_s == plan.makespan_s


@given(tried_out(), st.data())
def test_no_split_over_cards_of_different_speed_is_better(
    case: tuple[Files, int], data: st.DataObject
) -> None:
    speeds = data.draw(st.tuples(*[st.sampled_from([0.5, 0.9, 1.0])] * case[1]))
    best = best_of_all(*case, speeds)
    assert plan_of(*case, Limits(speeds=speeds)).makespan_s == pytest.approx(best, abs=1e-6)


@given(tried_out())
@example(([(0.5, [2.2250738585e-313])], 1))
@example(([(0.0, [0.5]), (0.0, [2e-60])], 1))
def test_every_bound_is_one(case: tuple[Files, int]) -> None:
    files, shards = case
    best = best_of_all(files, shards)
    loads = loads_of(files)
    plain = lower_bound(loads, shards)
    assert plain <= best * (1 + 1e-9)
    assert counted_bound(loads, shards, best) <= best * (1 + 1e-9)
    assert sharper_bound(loads, shards, plain, best * 1.5) <= best * (1 + 1e-9)
    assert on_grid(loads, plain) <= best * (1 + 1e-9)
    assert on_grid(loads, best) <= best * (1 + 1e-9)
    for limit in (best, best * 1.01, best * 1.2, best * 2):
        assert not is_out_of_reach(loads, shards, limit * (1 + 1e-9))
        assert not needs_more(loads, shards, limit * (1 + 1e-9))
        assert not needs_more(loads, shards, limit * (1 + 1e-9), most=FINE)
        assert not counts_too_many(loads, shards, limit * (1 + 1e-9))
        assert not groups_too_many(loads, shards, limit * (1 + 1e-9))
        assert not WholeTests(loads, shards).too_many(limit * (1 + 1e-9))


@given(few_files, st.integers(1, 4))
def test_tests_are_counted_by_a_running_sum_as_by_one_sum_each(files: Files, shards: int) -> None:
    loads = loads_of(files)
    reached = 1.01 * sum(load.whole_s for load in loads)
    sizes = sorted(
        (one + load.setup_s / fitting(load, reached) for load in loads for one in load.seconds), reverse=True
    )
    each = [
        sum(sizes[count * shards - count : count * shards + 1])
        for count in range(1, (len(sizes) - 1) // shards + 1)
    ]
    assert counted_bound(loads, shards, reached) == pytest.approx(max(each, default=0.0), rel=1e-8)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.5, 1.5]), st.lists(st.sampled_from([1.0, 2.0]), min_size=1, max_size=4)
        ),
        min_size=1,
        max_size=3,
    ),
    st.integers(2, 3),
)
def test_every_bound_by_units_is_one(files: Files, shards: int) -> None:
    assume(sum(len(times) for _, times in files) <= 8)
    best = best_of_all(files, shards)
    loads = loads_of(files)
    for limit in (best, best * 1.05, best * 1.3):
        assert not counts_too_many(loads, shards, limit * (1 + 1e-9))
        assert not groups_too_many(loads, shards, limit * (1 + 1e-9))
        assert not WholeTests(loads, shards).too_many(limit * (1 + 1e-9))
    assert sharper_bound(loads, shards, lower_bound(loads, shards), best * 1.5) <= best * (1 + 1e-9)


@given(st.lists(st.tuples(values, st.lists(values, min_size=2, max_size=2)), min_size=1, max_size=5))
def test_ten_tests_on_many_shards_are_split_as_on_ten(files: Files) -> None:
    assert plan_of(files, 2048).makespan_s == pytest.approx(plan_of(files, 10).makespan_s, abs=1e-9)


@pytest.mark.parametrize(
    ("files", "shards", "bound"),
    [
        # Two whole files and the third one cut: each shard pays two set-ups.
        ([(1.0, [0.125] * 24)] * 60, 40, 6.5),
        # Sixteen equal tests on five shards: one gets four.
        ([(0.0, [1.0] * 16)], 5, 4.0),
        # Every cut file has two parts, so half of the shards hold two whole files.
        ([(5.0, [1.0] * 13)] * 300, 183, 30.0),
    ],
)
def test_a_sharper_bound_is_found_where_set_ups_or_tests_do_not_divide(
    files: Files, shards: int, bound: float
) -> None:
    plan = plan_of(files, shards)
    assert lower_bound(loads_of(files), shards) < plan.bound_s
    assert plan.bound_s >= bound * 0.99
