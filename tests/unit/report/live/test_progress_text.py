from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.record.events import End
from ci.report.live.progress_text import about

from .small_states import A, B, C, D, Feed, shard, small_state


def test_what_is_left_is_shared_by_the_cards_as_far_as_it_can_be() -> None:
    expected = {A: 30.0, B: 10.0, C: 10.0, D: 10.0}
    setup = {"a.py": 2.0, "b.py": 4.0}
    assert small_state(expected_s=expected, setup_s=setup).seconds_left(0.0) == pytest.approx(33.0)
    # One card can do the longest test, and only one.
    expected[A] = 100.0
    assert small_state(expected_s=expected, setup_s=setup).seconds_left(0.0) == pytest.approx(102.0)


def test_it_is_by_seconds_and_not_by_count() -> None:
    names = [f"a.py::T::t{number}" for number in range(10)]
    expected = dict.fromkeys(names, 0.1) | {names[-1]: 99.1}
    feed = Feed(small_state(shard(0, {"a.py": names}), cards=["card:0"], expected_s=expected))
    feed.begin(0, "a.py")
    for name in names[:-1]:
        feed.state.take(0, End(id=name, outcome="passed", seconds=0.1), feed.now)
    assert feed.state.seconds_left(feed.now) == pytest.approx(99.1, rel=0.01)


def test_files_that_prove_slow_are_taken_to_stay_so() -> None:
    names = [f"a.py::T::t{number}" for number in range(20)]
    feed = Feed(
        small_state(shard(0, {"a.py": names}), cards=["card:0"], expected_s=dict.fromkeys(names, 10.0))
    )
    feed.begin(0, "a.py")
    for name in names[:10]:
        feed.state.take(0, End(id=name, outcome="passed", seconds=30.0), feed.now)
    assert feed.state.seconds_left(feed.now) == pytest.approx(300.0, rel=0.1)


def test_a_test_that_runs_has_less_left_and_never_less_than_nothing() -> None:
    feed = Feed(small_state(shard(0, {"a.py": [A]}), cards=["card:0"], expected_s={A: 40.0}))
    feed.begin(0, "a.py")
    feed.event(0, "start", id=A)
    assert feed.state.seconds_left(feed.now + 30) == pytest.approx(10.0)
    assert feed.state.seconds_left(feed.now + 300) == 0.0


def test_without_a_card_nobody_knows_and_with_nothing_left_it_is_nothing() -> None:
    feed = Feed(small_state())
    feed.event(0, "card_lost", card="card:0+card:1", message="gone")
    assert feed.state.seconds_left(1.0) is None
    feed.state.finish(1.0, interrupted=True)
    assert feed.state.seconds_left(1.0) == 0.0


def test_tests_nobody_ever_timed_have_what_their_shard_leaves_them() -> None:
    state = small_state(shard(0, {"a.py": [A, B, C]}, expected_s=30.0), cards=["x"], expected_s={A: 10.0})
    assert state.seconds_left(0.0) == pytest.approx(30.0)


@given(
    st.dictionaries(st.sampled_from([A, B, C, D]), st.floats(0, 1e6)),
    st.lists(st.sampled_from([A, B, C, D]), unique=True),
    st.floats(0, 1e6),
)
def test_it_is_never_below_nothing_and_never_above_all_of_it_on_one_card(
    expected: dict[str, float], ended: list[str], took: float
) -> None:
    state = small_state(expected_s=expected)
    for name in ended:
        state.take(0, End(id=name, outcome="passed", seconds=took), 1.0)
    left = state.seconds_left(1.0)
    assert left is not None
    assert 0.0 <= left < float("inf")
    if len(ended) == 4:
        assert left == 0.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "about 5 s left"),
        (7.0, "about 10 s left"),
        (41.0, "about 50 s left"),
        (60.0, "about 1 min left"),
        (355.0, "about 6 min left"),
        (3600.0, "about 1 h 00 min left"),
        (7800.0, "about 2 h 10 min left"),
        (None, "no card left"),
        (float("nan"), "no card left"),
    ],
)
def test_it_is_said_no_more_exactly_than_it_is_known(seconds: float | None, text: str) -> None:
    assert about(seconds) == text
