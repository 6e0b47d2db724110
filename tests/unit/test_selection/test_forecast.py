"""Makespan against cards: never rising, and as many cards as a wanted makespan takes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.bound import lower_bound
from test_selection.errors import UsageError
from test_selection.forecast import cards_within, curve, doublings, stops_paying
from test_selection.loads import FileLoad


def load(name: str, setup: float, seconds: Sequence[float]) -> FileLoad:
    ordered = tuple(sorted(seconds, reverse=True))
    ids = tuple(f"{name}::{number}" for number in range(len(ordered)))
    return FileLoad(file=name, setup_s=setup, seconds=ordered, ids=ids, total_s=sum(ordered))


times = st.lists(st.floats(0, 50), min_size=1, max_size=20)
loads = st.lists(st.tuples(st.floats(0, 20), times), max_size=5).map(
    lambda rows: [load(f"f{number}.py", *row) for number, row in enumerate(rows)]
)


@given(loads)
def test_more_cards_never_take_longer_and_each_point_is_the_bound(found: list[FileLoad]) -> None:
    points = curve(found, doublings(64))
    assert [point.cards for point in points] == [1, 2, 4, 8, 16, 32, 64]
    for earlier, later in itertools.pairwise(points):
        assert later.bound_s <= earlier.bound_s
    for point in points:
        assert point.bound_s == pytest.approx(lower_bound(found, point.cards), rel=1e-6)


@given(loads, st.floats(0.1, 500))
def test_the_cards_for_a_makespan_are_the_least_whose_bound_keeps_it(
    found: list[FileLoad], wanted: float
) -> None:
    if lower_bound(found, 64) > wanted:
        with pytest.raises(UsageError, match=r"end"):
            cards_within(found, wanted, 64)
        return
    count = cards_within(found, wanted, 64)
    assert lower_bound(found, count) <= wanted
    if count > 1:
        assert lower_bound(found, count - 1) > wanted


def test_twice_the_cards_stop_paying_at_the_longest_test() -> None:
    found = [load("a.py", 0.0, [10.0] * 16)]
    assert stops_paying(found, 1024) == 16
    assert curve(found, [8, 16])[1].binds == "longest test"
    assert stops_paying([], 64) == 1
    assert stops_paying([load("a.py", 0.0, [1.0] * 1000)], 64) == 64


def test_set_up_binds_where_it_is_half_of_the_time() -> None:
    found = [load("a.py", 10.0, [1.0] * 40)]
    assert curve(found, [1, 20])[1].binds == "set-up"
    assert curve([], [1, 2])[1].binds == "nothing"


def test_a_makespan_below_the_longest_test_is_refused_with_that_test() -> None:
    with pytest.raises(UsageError, match=r"the longest test takes 12\.0 s"):
        cards_within([load("a.py", 2.0, [10.0])], 5.0, 64)
    with pytest.raises(UsageError, match="64 cards end after"):
        cards_within([load("a.py", 0.0, [1.0] * 6400)], 5.0, 64)


def test_counts_double_up_to_the_most() -> None:
    assert doublings(1) == [1]
    assert doublings(12) == [1, 2, 4, 8, 12]
