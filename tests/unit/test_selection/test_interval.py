from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.interval import score_interval


@pytest.mark.parametrize(("seen", "interval"), [(0, (0, 0.278)), (5, (0.237, 0.763))])
def test_the_score_interval_is_that_of_the_books(seen: int, interval: tuple[float, float]) -> None:
    # Agresti and Coull (1998), of 10.
    assert score_interval(seen, 10) == pytest.approx(interval, abs=1e-3)


@given(st.integers(0, 500), st.integers(0, 500))
def test_an_interval_holds_its_rate(a: int, b: int) -> None:
    seen, of = sorted([a, b])
    low, high = score_interval(seen, of)

    assert 0 <= low <= high <= 1
    if of:
        assert low - 1e-9 <= seen / of <= high + 1e-9
        assert low < 1
