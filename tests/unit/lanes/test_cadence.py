"""When lanes are due: cron in time zones that change their clocks, times a day, times after an end."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from ci.config.lanes_model import Lane
from ci.lanes.cadence import MOST_PASSED, crons, next_due, passed, said
from tests.lane_settings import lane

BERLIN = ZoneInfo("Europe/Berlin")
LINES = st.builds(
    " ".join,
    st.tuples(
        st.sampled_from(["0", "30", "*/7", "0,30", "5-50/9", "*"]),
        st.sampled_from(["*", "0", "2", "1-3", "*/3", "0,2,3", "2-23/5"]),
        st.sampled_from(["*", "*", "1", "29", "*/9"]),
        st.sampled_from(["*", "*", "3,10", "4"]),
        st.sampled_from(["*", "0", "1-5"]),
    ),
)
# Clocks that change at night, at midnight, by half an hour and by two; and one that left out a whole day.
CHANGES = st.sampled_from(
    [
        ("UTC", "2026-03-29T01:00+00:00"),
        ("Europe/Berlin", "2026-03-29T01:00+00:00"),
        ("Europe/Berlin", "2026-10-25T01:00+00:00"),
        ("Africa/Cairo", "2026-04-23T22:00+00:00"),
        ("Africa/Cairo", "2026-10-29T21:00+00:00"),
        ("Australia/Lord_Howe", "2026-04-04T15:00+00:00"),
        ("Australia/Lord_Howe", "2026-10-03T15:30+00:00"),
        ("Antarctica/Troll", "2026-03-29T01:00+00:00"),
        ("Antarctica/Troll", "2026-10-25T01:00+00:00"),
        ("Pacific/Apia", "2011-12-30T10:00+00:00"),
    ]
)
AROUND = st.integers(-8 * 3600, 8 * 3600)


def at(text: str, zone: tzinfo = UTC) -> int:
    moment = datetime.fromisoformat(text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp())


def shown(times: list[int], zone: tzinfo = UTC) -> list[str]:
    return [datetime.fromtimestamp(one, tz=zone).isoformat(timespec="minutes") for one in times]


def following(one: Lane, zone: tzinfo, start: int, count: int) -> list[int]:
    """The next times, each asked for from the one before."""
    found: list[int] = []
    for _ in range(count):
        looked = found[-1] if found else start
        found.append(next_due(one, zone, name="a", looked=looked, last_end=None, now=looked).at)
    return found


def test_a_time_that_has_passed_since_the_last_look_is_due_still() -> None:
    due = next_due(
        lane("0 2 * * *"),
        UTC,
        name="a",
        looked=at("2026-07-01T01:59"),
        last_end=None,
        now=at("2026-07-01T02:05"),
    )
    assert shown([due.at]) == ["2026-07-01T02:00+00:00"]


def test_a_look_that_lies_ahead_counts_as_one_of_now() -> None:
    now = at("2026-07-01T01:00")
    due = next_due(lane("0 2 * * *"), UTC, name="a", looked=at("2027-07-01T00:00"), last_end=None, now=now)
    assert shown([due.at]) == ["2026-07-01T02:00+00:00"]


def test_two_times_that_fall_into_the_hour_that_is_left_out_are_one() -> None:
    twice = lane({"times_a_day": 24, "first": "00:30"})
    day = passed(twice, BERLIN, after=at("2026-03-29T00:00", BERLIN), until=at("2026-03-30T00:00", BERLIN))
    assert len(day) == 24  # 02:30 is at 03:00, and 03:30 is there
    line = lane("0 2,3 * * *")
    found = passed(line, BERLIN, after=at("2026-03-28T12:00", BERLIN), until=at("2026-03-29T12:00", BERLIN))
    assert shown(found, BERLIN) == ["2026-03-29T03:00+02:00"]


def test_the_29th_of_february_comes_in_leap_years_only() -> None:
    times = following(lane("0 6 29 2 *"), UTC, at("2026-01-01T00:00"), 2)
    assert shown(times) == ["2028-02-29T06:00+00:00", "2032-02-29T06:00+00:00"]
    # 2100 is none.
    assert shown(following(lane("0 6 29 2 *"), UTC, at("2096-03-01T00:00"), 1)) == ["2104-02-29T06:00+00:00"]


def test_a_day_of_three_times_has_them_eight_hours_apart() -> None:
    three = lane({"times_a_day": 3})
    assert crons(three.cadence) == ("17 0,8,16 * * *",)
    assert said(three.cadence, UTC) == "3 times a day, from 00:17 on, UTC"
    late = lane({"times_a_day": 3, "first": "22:05"})
    assert crons(late.cadence) == ("5 6,14,22 * * *",)


@pytest.mark.parametrize("number", range(1, 25))
def test_a_day_has_as_many_times_as_were_asked_for_evenly_spread(number: int) -> None:
    start = at("2026-06-01T00:00")
    day = passed(lane({"times_a_day": number}), UTC, after=start - 1, until=start + 86400 - 1)
    assert len(day) == number
    gaps = {later - one for one, later in itertools.pairwise([*day, day[0] + 86400])}
    assert all(abs(gap - 86400 / number) < 60 for gap in gaps)


def test_the_first_run_after_an_end_is_at_once() -> None:
    weekly = lane({"after_end": {"min": 6, "max": 8}})
    due = next_due(weekly, UTC, name="a", looked=None, last_end=None, now=1000.5)
    assert due.at == 1000
    assert due.why == "6 to 8 hours after the end of the last run; it has not run yet"


def test_a_wait_without_a_span_is_that_wait() -> None:
    days = lane({"after_end": {"min": 2, "max": 2, "unit": "days"}})
    due = next_due(days, UTC, name="a", looked=None, last_end=1000.0, now=2000)
    assert due.at == 1000 + 2 * 86400
    assert due.why == "2 days after the end of the last run: 48 h 0 min were drawn"


@given(st.integers(0, 2**32 - 1), st.floats(0, 4e9), st.floats(0, 300), st.floats(0.01, 300))
def test_what_is_drawn_lies_between_the_bounds_and_is_drawn_again_alike(
    seed: int, end: float, low: float, more: float
) -> None:
    one = lane({"after_end": {"min": low, "max": min(low + more, 366)}}, seed=seed)
    due = next_due(one, UTC, name="a", looked=None, last_end=end, now=end + 1)
    assert round(low * 3600) <= due.at - int(end) <= round(min(low + more, 366) * 3600)
    assert due == next_due(one, UTC, name="a", looked=None, last_end=end, now=end + 2000)


def test_lanes_with_other_names_or_seeds_do_not_stay_in_step() -> None:
    found = {
        next_due(
            lane({"after_end": {"min": 6, "max": 8}}, seed=seed),
            UTC,
            name=name,
            looked=None,
            last_end=1000,
            now=1000,
        ).at
        for seed in range(3)
        for name in ("a", "b")
    }
    assert len(found) == 6


def test_an_end_that_lies_ahead_is_waited_for_as_one_of_now() -> None:
    one = lane({"after_end": {"min": 6, "max": 8}})
    year = 366 * 86400
    due = next_due(one, UTC, name="a", looked=None, last_end=1e9 + year, now=1e9)
    assert 1e9 + 6 * 3600 <= due.at <= 1e9 + 8 * 3600


def test_of_a_year_of_minutes_the_last_are_listed() -> None:
    now = at("2026-06-01T00:00")
    times = passed(lane("* * * * *"), UTC, after=now - 366 * 86400, until=now)
    assert times == [now - 60 * back for back in reversed(range(MOST_PASSED))]


def test_a_clock_that_went_back_has_nothing_pass() -> None:
    assert passed(lane("* * * * *"), UTC, after=1000, until=1000) == []
    assert passed(lane("* * * * *"), UTC, after=1000, until=400) == []


def test_where_clocks_change_at_midnight_the_first_hour_of_the_day_is_not_lost() -> None:
    cairo = ZoneInfo("Africa/Cairo")
    named = following(lane("30 0 * * *"), cairo, at("2026-04-23T12:00", cairo), 2)
    assert shown(named, cairo) == ["2026-04-24T01:00+03:00", "2026-04-25T00:30+03:00"]
    starred = following(lane("*/20 1 * * *"), cairo, at("2026-04-23T12:00", cairo), 3)
    assert [one[:16] for one in shown(starred, cairo)] == [
        "2026-04-24T01:00",
        "2026-04-24T01:20",
        "2026-04-24T01:40",
    ]


@given(LINES, CHANGES, AROUND, st.integers(1, 40), st.integers(0, 86400))
def test_times_are_the_same_forwards_and_backwards_never_twice_and_wherever_one_looks_between(
    line: str, change: tuple[str, str], around: int, count: int, cut: int
) -> None:
    one, zone, start = lane(line), ZoneInfo(change[0]), at(change[1]) + around
    times = following(one, zone, start, count)
    assert times == sorted(set(times))
    assert times[0] > start
    assert passed(one, zone, after=start, until=times[-1]) == times
    between = min(start + cut, times[-1])
    parts = [passed(one, zone, after=start, until=between), passed(one, zone, after=between, until=times[-1])]
    assert parts[0] + parts[1] == times


@given(LINES.filter(lambda line: line[0] == "*" or line.split()[1][0] == "*"), CHANGES, AROUND)
def test_what_has_a_star_is_due_at_every_minute_that_the_clock_shows_it(
    line: str, change: tuple[str, str], around: int
) -> None:
    zone, start = ZoneInfo(change[0]), (at(change[1]) + around) // 60 * 60
    minutes = [start + 60 * number for number in range(1, 241)]

    def is_shown(moment: int) -> bool:
        wall = datetime.fromtimestamp(moment, tz=zone).replace(tzinfo=None, fold=0)
        return next(CronSim(line, wall - timedelta(minutes=1))) == wall

    assert passed(lane(line), zone, after=start, until=minutes[-1]) == list(filter(is_shown, minutes))
