"""Whatever the clock shows and however runs end: no time is begun twice, and no lane has two runs."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ci.config.lanes_model import Lane
from tests.lane_settings import lane
from tests.lane_store import START, Store

YEAR = 365 * 86400
CADENCES: st.SearchStrategy[str | dict[str, Any]] = st.one_of(
    st.sampled_from(["* * * * *", "*/5 * * * *", "0 * * * *", "0 2 * * *"]),
    st.builds(lambda number: {"times_a_day": number}, st.integers(1, 24)),
    st.builds(
        lambda low, more: {"after_end": {"min": low, "max": low + more}},
        st.sampled_from([0, 0.01, 1, 6]),
        st.sampled_from([0.001, 0.5, 2]),
    ),
)
LANES = st.dictionaries(
    st.sampled_from("abc"),
    st.builds(
        lambda cadence, most, seed: lane(
            cadence, seed=seed, retries={"most": most, "first_s": 30, "longest_s": 600}
        ),
        CADENCES,
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    min_size=1,
)
JUMPS = st.one_of(
    st.integers(0, 600),
    st.integers(-7200, 7200),
    st.sampled_from([0.5, -0.5, 86400, -86400, YEAR, -YEAR, 3599, 3601]),
)
# What happens between two looks: runs that end, with an answer or without, and settings that change.
EVENTS = st.lists(
    st.tuples(
        JUMPS,
        st.dictionaries(st.sampled_from("abc"), st.booleans()),
        st.sampled_from(["", "", "", "a", "b"]),
    ),
    max_size=40,
)


@given(LANES, EVENTS, st.integers(1, 3))
def test_a_time_is_begun_once_and_a_lane_has_one_run(
    lanes: dict[str, Lane], events: list[tuple[float, dict[str, bool], str]], at_once: int
) -> None:
    one, now = Store(lanes=dict(lanes), at_once=at_once), float(START)
    for jump, ends, toggled in events:
        now += jump
        if toggled in lanes:
            before = one.lanes[toggled]
            one.lanes[toggled] = before.model_copy(update={"enabled": not before.enabled})
        for name, answered in ends.items():
            if one.running(name):
                one.end(name, now, answered=answered)
        one.turn(now)  # the store refuses a second begin, run or attempt
        assert sum(map(one.running, lanes)) <= at_once
    first = [(name, due) for name, due, attempt in one.begun if attempt == 1]
    assert len(first) == len(set(first))


@given(LANES, EVENTS)
def test_when_the_clock_runs_again_every_lane_does(
    lanes: dict[str, Lane], events: list[tuple[float, dict[str, bool], str]]
) -> None:
    one, now = Store(lanes=dict(lanes)), float(START)
    for jump, ends, _ in events:
        now += jump
        for name, answered in ends.items():
            if one.running(name):
                one.end(name, now, answered=answered)
        one.turn(now)
    for name in lanes:
        if one.running(name):
            one.end(name, now)
    count = len(one.begun)
    # The longest is a day, and one that a jump took beforehand may be missing from it.
    for _ in range(3 * 24):
        now += 3600
        one.turn(now)
        for name in lanes:
            if one.running(name):
                one.end(name, now)
    assert {name for name, _, _ in one.begun[count:]} == set(lanes)
