"""Evening a packing out, by pieces and by groups, keeps every second and every shard, and gets on."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.bound import lower_bound
from test_selection.cards import Cards
from test_selection.draws import Draws
from test_selection.even import even
from test_selection.fluid import Packing, spread
from test_selection.laying import lay
from test_selection.loads import FileLoad
from test_selection.regroup import Regrouping, components, full_shards, regroup, seeds

lengths = st.sampled_from([0.0, 0.5, 1.0, 1.02, 3.0]) | st.floats(0, 20)
files = st.lists(st.tuples(lengths, st.lists(lengths, min_size=1, max_size=12)), min_size=1, max_size=12).map(
    lambda rows: [load(number, *row) for number, row in enumerate(rows)]
)


def load(number: int, setup: float, seconds: list[float]) -> FileLoad:
    ordered = tuple(sorted(seconds, reverse=True))
    ids = tuple(f"f{number}.py::t{one}" for one in range(len(ordered)))
    return FileLoad(file=f"f{number}.py", setup_s=setup, seconds=ordered, ids=ids, total_s=sum(ordered))


def totals(packing: Packing) -> dict[int, float]:
    found: defaultdict[int, float] = defaultdict(float)
    for shares in packing.shares:
        for number, seconds in shares:
            found[number] += seconds
    return dict(found)


def peak(packing: Packing) -> float:
    return max(
        sum(packing.loads[number].setup_s + seconds for number, seconds in shares)
        for shares in packing.shares
    )


def assert_whole(packing: Packing, loads: list[FileLoad], shards: int) -> None:
    assert len(packing.shares) == len(packing.widths) == len(packing.speeds) == shards
    found = totals(packing)
    for number, one in enumerate(loads):
        assert found.get(number, 0.0) == pytest.approx(one.total_s, abs=1e-6)


@given(files, st.integers(1, 12))
def test_evening_out_loses_nothing_and_is_never_worse(loads: list[FileLoad], shards: int) -> None:
    packing = spread(loads, Cards(count=shards), lower_bound(loads, shards))
    before = peak(packing)
    reached = even(packing, 0.0)
    assert_whole(packing, loads, shards)
    assert reached <= before * (1 + 1e-9)
    assert peak(packing) == pytest.approx(reached)


def test_swaps_even_two_shards_out() -> None:
    loads = [load(number, 1.0, [one]) for number, one in enumerate([9.0, 5.0, 5.0, 1.0])]
    packing = Packing(loads, Cards(count=2), 20.0)
    packing.shares = [[(0, 9.0), (1, 5.0)], [(2, 5.0), (3, 1.0)]]
    assert even(packing, 12.0) == 12.0


@given(files, st.integers(1, 12), st.floats(1.0, 1.3))
def test_regrouping_loses_nothing(loads: list[FileLoad], shards: int, above: float) -> None:
    bound = lower_bound(loads, shards)
    packing = regroup(loads, Cards(count=shards), bound, bound * above)
    assert_whole(packing, loads, shards)


def test_files_that_fill_shards_together_are_brought_together() -> None:
    # Each shard can hold a file of 60 + k with one of 38 - k s, and a set-up of 1 s each.
    loads = [
        load(2 * k + half, 1.0, [0.5] * (2 * (60 + k if half else 38 - k)))
        for k in range(12)
        for half in (0, 1)
    ]
    packing = regroup(loads, Cards(count=12), 100.0, 100.0)
    assert peak(packing) == pytest.approx(100.0)
    assert sum(map(len, packing.shares)) == len(loads)


@pytest.mark.parametrize("tiny", [5e-324, 1.1e-308, 1e-300])
def test_seconds_that_no_clock_tells_apart_are_grouped_all_the_same(tiny: float) -> None:
    loads = [load(number, tiny, [tiny] * 3) for number in range(4)]
    bound = lower_bound(loads, 2)
    assert sum(count for _, count in seeds(loads, Cards(count=2), bound)) == 2
    assert_whole(regroup(loads, Cards(count=2), bound, bound * 1.1), loads, 2)


@given(files, st.integers(1, 12))
def test_seeds_hold_every_file_once_and_every_shard(loads: list[FileLoad], shards: int) -> None:
    found = seeds(loads, Cards(count=shards), lower_bound(loads, shards))
    assert sum(count for _, count in found) == shards
    assert sorted(file for names, _ in found for file in names) == list(range(len(loads)))


@given(files, st.integers(1, 6), st.floats(1, 50))
def test_files_are_laid_along_shards_whole(loads: list[FileLoad], shards: int, limit: float) -> None:
    packing = Packing(loads, Cards(count=shards), limit)
    packing.shares = lay(loads, tuple(range(len(loads))), shards, limit)
    packing.widths, packing.speeds = [1] * shards, [1.0] * shards
    assert_whole(packing, loads, shards)


def test_a_file_that_is_cheap_to_cut_fills_shards_beside_whole_files_and_spares_dear_cuts() -> None:
    # 105 s a shard are 95 s of a file with its set-up of 5 s, and 5 s of the one that is set up in no time.
    loads = [load(number, 5.0, [1.0] * 95) for number in range(8)] + [load(8, 0.0, [1.0] * 40)]
    shares = lay(loads, tuple(range(9)), 8, 105.0)
    assert [sum(loads[one].setup_s + seconds for one, seconds in row) for row in shares] == [105.0] * 8
    assert all(len(row) == 2 for row in shares)


def test_groups_are_what_shares_connect() -> None:
    loads = [load(number, 1.0, [1.0, 1.0]) for number in range(4)]
    packing = Packing(loads, Cards(count=4), 9.0)
    packing.shares = [[(0, 2.0)], [(1, 1.0), (2, 2.0)], [(1, 1.0)], [(3, 2.0)]]
    assert components(packing) == [((0,), 1), ((1, 2), 2), ((3,), 1)]


def test_a_file_fills_the_shards_that_its_rest_is_beyond() -> None:
    assert [full_shards(load(0, 2.0, [1.0] * 20), limit) for limit in (12.0, 22.0, 8.0, 1.0)] == [1, 0, 3, 0]


def test_shards_may_be_left_without_a_file() -> None:
    groups: list[tuple[tuple[int, ...], int]] = [((0, 1), 1), ((), 5), ((2,), 1)]
    loads = [load(number, 1.0, [2.0] * 5) for number in range(3)]
    made = Regrouping(loads, 11.5, groups)
    assert made.run() == 0.0
    assert sum(group.shards for group in made.groups) == 7
    assert sorted(file for group in made.groups for file in group.files) == [0, 1, 2]


def test_one_group_too_long_for_its_shard_ends_the_search() -> None:
    made = Regrouping([load(number, 1.0, [2.0] * 2) for number in range(2)], 9.0, [((0, 1), 1)])
    assert made.run() == 1.0


def test_draws_are_the_same_in_every_run_and_within_what_is_asked() -> None:
    one, two = Draws(7), Draws(7)
    assert [one.below(10) for _ in range(50)] == [two.below(10) for _ in range(50)]
    assert {one.below(3) for _ in range(100)} == {0, 1, 2}
    assert all(0 <= one.part() < 1 <= 1 + one.heat() for _ in range(100))
    items = list(range(20))
    one.shuffle(items)
    assert sorted(items) == list(range(20)) != items
