"""The small linear program agrees with what is known of covers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.linear import Column, cover

sizes = st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True)


def dearest(lengths: Sequence[int], room: int, prices: Sequence[float]) -> Column | None:
    """The choice of lengths within `room` that is worth most, by trying all; None below a worth of 1."""
    choices = itertools.product(*(range(room // one + 1) for one in lengths))
    fitting = [one for one in choices if sum(a * b for a, b in zip(one, lengths, strict=True)) <= room]
    best = max(fitting, key=lambda one: sum(a * b for a, b in zip(one, prices, strict=True)))
    if sum(a * b for a, b in zip(best, prices, strict=True)) <= 1 + 1e-7:
        return None
    return Column(covers=tuple((row, float(much)) for row, much in enumerate(best) if much), cost=1.0)


def singles(lengths: Sequence[int], room: int) -> list[Column]:
    return [Column(covers=((row, float(room // one)),), cost=1.0) for row, one in enumerate(lengths)]


def test_rolls_are_cut_as_by_hand() -> None:
    # Rolls of 10: six with a 6 and a 3 each, and the three 3s left on one more.
    found = cover([6, 9], singles([6, 3], 10), lambda prices: dearest([6, 3], 10, prices))
    assert sum(much * column.cost for column, much in found.used) == pytest.approx(7)


@given(sizes, st.integers(9, 20), st.data())
def test_the_cover_covers_and_its_prices_prove_that_none_costs_less(
    lengths: list[int], room: int, data: st.DataObject
) -> None:
    needs = [data.draw(st.integers(0, 30)) for _ in lengths]
    found = cover(needs, singles(lengths, room), lambda prices: dearest(lengths, room, prices))
    for row, need in enumerate(needs):
        covered = sum(
            much * times for column, much in found.used for place, times in column.covers if place == row
        )
        assert covered >= need - 1e-6
    cost = sum(much * column.cost for column, much in found.used)
    assert cost == pytest.approx(sum(a * b for a, b in zip(needs, found.prices, strict=True)), abs=1e-6)
    assert dearest(lengths, room, [price * (1 - 1e-6) for price in found.prices]) is None
    assert cost >= sum(a * b for a, b in zip(needs, lengths, strict=True)) / room - 1e-6


def test_one_may_stop_at_any_prices() -> None:
    asked = []

    def enough(prices: Sequence[float]) -> bool:
        asked.append(tuple(prices))
        return True

    found = cover([4.0], singles([5], 10), lambda _: pytest.fail("nothing better is sought"), enough)
    assert asked == [(0.5,)]
    assert [much for _, much in found.used] == [2.0]


def test_nothing_needed_takes_nothing() -> None:
    assert cover([0, 0], singles([1, 2], 4), lambda _: None).used == ()
