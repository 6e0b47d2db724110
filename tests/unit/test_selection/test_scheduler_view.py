"""What ended pieces say about the rest."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.scheduler_view import QUANTILE, USUAL_SPREAD, caution, scale, spread


def test_estimates_are_trusted_until_pieces_say_otherwise() -> None:
    assert scale(0.0, 0.0, 5.0) == 1.0
    assert scale(0.0, 0.0, 0.0) == 1.0
    assert scale(200.0, 100.0, 1e-9) == pytest.approx(2.0)
    assert 1.0 < scale(20.0, 10.0, 5.0) < 2.0


@given(st.lists(st.floats(0.1, 10), max_size=30))
def test_on_a_day_that_goes_as_planned_estimates_are_trusted_more(scales: list[float]) -> None:
    assert spread([1.0] * 100) < spread([]) == pytest.approx(USUAL_SPREAD)
    assert spread(scales) >= 0
    assert spread([math.exp(0.5), math.exp(-0.5)] * 500) == pytest.approx(0.5, rel=0.02)


def test_a_file_that_has_shown_nothing_is_given_time_and_one_that_has_is_not() -> None:
    seen = [caution(expected_s, 0.5, 0.3) for expected_s in (0.0, 1.0, 10.0, 1e6)]
    assert seen == sorted(seen, reverse=True)
    assert seen[0] == pytest.approx(math.exp(QUANTILE * 0.3))
    assert seen[-1] == pytest.approx(1.0, abs=0.01)
    assert caution(0.0, 0.0, 0.3) == 1.0
    assert caution(0.0, 0.5, 0.0) == 1.0
