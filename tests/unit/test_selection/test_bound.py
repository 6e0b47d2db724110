"""The search for the least limit that fits ends, and finds it, for numbers of any size."""

from __future__ import annotations

import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from test_selection.bound import ROUNDING, least, lower_bound
from test_selection.loads import FileLoad

# The least number above 0: half of it is 0 again.
LEAST = 5e-324
CALLS = 10_000


def searched(limit: float, start: float) -> float:
    """What `least` finds, given up where it asks without an end."""
    asked = 0

    def fits(found: float) -> bool:
        nonlocal asked
        asked += 1
        assert asked < CALLS
        return found >= limit

    return least(fits, start)


SIZES = st.floats(0, 1e150) | st.floats(0, 1e-300)


@given(SIZES, SIZES)
@example(LEAST * 3, LEAST)
@example(LEAST, 0.0)
@example(1e-300, 0.0)
def test_the_least_that_fits_is_found_from_any_start(limit: float, start: float) -> None:
    found = searched(limit, start)
    assert found >= limit
    assert found == max(start, limit) or found <= limit * (1 + 2 * ROUNDING) + LEAST


@pytest.mark.parametrize("cards", [1, 2, 3, 64])
@pytest.mark.parametrize("seconds", [LEAST, 2 * LEAST, 1e-310, sys.float_info.min])
def test_tests_that_take_next_to_nothing_have_a_bound(seconds: float, cards: int) -> None:
    load = FileLoad(
        file="a.py", setup_s=0.0, seconds=(seconds,) * 3, ids=("a", "b", "c"), total_s=seconds * 3
    )
    assert seconds <= lower_bound([load], cards) <= 3 * seconds
