"""Changing files: what is asked of the cards can be done, and nobody is sent in vain."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.scheduler_view import Card, Need
from test_selection.work_stealing import Reassignment, rebalance

FILES = ["a.py", "b.py", "c.py", "d.py"]
seconds = st.sampled_from([0.0, 1.0, 15.0]) | st.floats(0, 100)
needs = st.dictionaries(st.sampled_from(FILES), st.builds(Need, seconds, seconds), max_size=4)
cards = st.lists(
    st.tuples(st.none() | st.sampled_from(FILES), seconds, st.floats(0.5, 2), st.booleans()), max_size=8
).map(lambda rows: [Card(number, *row) for number, row in enumerate(rows)])


def alone(found: Sequence[Card], wanted: Mapping[str, Need], now: float) -> float:
    """When all ends if nobody moves; infinite where a file has no card."""
    ends = [now]
    for file, need in wanted.items():
        at = [one for one in found if one.file == file]
        if not at:
            return math.inf
        # Cards of one file end together, but for those that are free only later.
        low, high = now, now + 1e4
        for _ in range(60):
            middle = (low + high) / 2
            done = sum(max(0.0, middle - one.free_s) / one.pace for one in at)
            low, high = (low, middle) if done >= max(need.rest_s, 1e-3) else (middle, high)
        ends.append(high)
    return max(ends)


@given(cards, needs, st.none() | st.floats(0, 500))
def test_moving_never_puts_the_common_end_off(
    found: list[Card], wanted: dict[str, Need], guess: float | None
) -> None:
    end = rebalance(found, wanted, 0.0, guess).end_s
    assert end <= alone(found, wanted, 0.0) * 1.01 + 1.01


@given(cards, needs)
def test_all_that_is_unclaimed_has_a_card_by_the_common_end(
    found: list[Card], wanted: dict[str, Need]
) -> None:
    moves = rebalance(found, wanted, 0.0)
    if not found:
        assert math.isinf(moves.end_s) == bool(wanted)
        return
    room = sum(max(0.0, moves.end_s - one.free_s) / one.pace for one in found)
    sent = [file for files in moves.goes.values() for file in files]
    work = sum(need.rest_s for need in wanted.values()) + sum(wanted[file].setup_s for file in sent)
    assert work <= room * (1 + 1e-9) + 1e-3
    assert set(wanted) <= set(sent) | {one.file for one in found}


@given(cards, needs)
def test_who_leaves_is_wanted_elsewhere_and_has_run_a_piece_of_his_file(
    found: list[Card], wanted: dict[str, Need]
) -> None:
    moves = rebalance(found, wanted, 0.0)
    for card in moves.leaves:
        assert moves.goes[card]
        assert found[card].file in wanted
        assert not found[card].fresh
        assert found[card].file not in moves.goes[card]
        # Somebody stays.
        assert any(one.file == found[card].file and one.card not in moves.leaves for one in found)


@given(cards, needs, st.randoms(use_true_random=False))
def test_the_order_in_which_cards_are_seen_changes_nothing(
    found: list[Card], wanted: dict[str, Need], shuffle: random.Random
) -> None:
    other = list(found)
    shuffle.shuffle(other)
    assert rebalance(other, dict(sorted(wanted.items(), reverse=True)), 0.0) == rebalance(found, wanted, 0.0)


def test_a_file_without_a_card_wants_one_and_an_early_one_spares_it() -> None:
    early = [Card(number, "early.py", 10.0, 1.0, False) for number in range(4)]
    wanted = {"late.py": Need(30.0, 5.0), "early.py": Need(10.0, 5.0)}
    moves = rebalance(early, wanted, 10.0)
    assert {file for files in moves.goes.values() for file in files} == {"late.py"}
    assert 1 <= len(moves.leaves) <= 3
    assert 21 < moves.end_s < 30


def test_nobody_pays_a_set_up_where_no_time_is_left_for_it() -> None:
    late = [Card(0, "a.py", 0.0, 1.0, False), Card(1, None, 0.0, 1.0, False)]
    assert rebalance(late, {"a.py": Need(14.0, 15.0)}, 0.0).goes == {}
    assert rebalance(late, {"a.py": Need(16.0, 15.0)}, 0.0).goes == {1: ("a.py",)}


def test_a_card_goes_where_what_is_left_fits_best() -> None:
    found = [Card(0, None, 0.0, 1.0, False), Card(1, None, 60.0, 1.0, False)]
    moves = rebalance(found, {"long.py": Need(85.0, 15.0), "short.py": Need(25.0, 15.0)}, 0.0)
    assert moves.goes == {0: ("long.py",), 1: ("short.py",)}
    assert moves.end_s == pytest.approx(100.0, rel=0.01)


def test_where_nobody_lives_nobody_moves() -> None:
    moves = rebalance([], {"a.py": Need(1.0, 1.0)}, 0.0)
    assert moves == Reassignment(end_s=math.inf, goes={}, leaves=frozenset())
