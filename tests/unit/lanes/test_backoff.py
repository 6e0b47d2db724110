"""Waits before further tries, to the millisecond."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ci.config.lanes_model import Retries
from ci.lanes.backoff import waits


def test_without_jitter_each_wait_is_longer_by_the_factor_up_to_the_cap() -> None:
    retries = Retries(most=7, first_s=60, factor=3, longest_s=3600, jitter=0)
    assert waits(retries, seed=0, key="a-0") == (60, 180, 540, 1620, 3600, 3600, 3600)


def test_the_jitter_is_the_seeds_and_the_same_after_a_restart() -> None:
    retries = Retries(most=4, first_s=60, factor=2, longest_s=3600, jitter=0.5)
    first = waits(retries, seed=7, key="nightly-1000")
    assert first == waits(retries, seed=7, key="nightly-1000")
    assert first == (66.386, 153.25, 245.439, 554.451)
    assert waits(retries, seed=8, key="nightly-1000") == (76.872, 170.605, 302.465, 648.909)
    assert waits(retries, seed=7, key="weekly-1000") == (64.897, 134.404, 345.779, 537.366)


def test_no_retries_is_an_empty_list() -> None:
    assert waits(Retries(most=0), seed=0, key="a-0") == ()


@given(
    st.builds(
        Retries,
        most=st.integers(0, 20),
        first_s=st.floats(0.01, 7 * 86400),
        factor=st.floats(1, 10),
        longest_s=st.floats(0.01, 7 * 86400),
        jitter=st.floats(0, 1),
    ),
    st.integers(0, 2**32 - 1),
    st.text(max_size=20),
)
def test_there_are_as_many_as_tries_and_none_is_beyond_the_cap_or_twice_its_bare_wait(
    retries: Retries, seed: int, key: str
) -> None:
    found = waits(retries, seed=seed, key=key)
    assert len(found) == retries.most
    for number, wait in enumerate(found):
        bare = min(retries.first_s * retries.factor**number, retries.longest_s)
        assert round(bare, 3) <= wait <= round(min(bare * (1 + retries.jitter), retries.longest_s), 3)
