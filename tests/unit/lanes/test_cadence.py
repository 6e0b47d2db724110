"""When lanes are due: cron in time zones that change their clocks, times a day, times after an end."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from ci.config.lanes_model import AfterEnd, Cadence
from ci.lanes.cadence import cron_lines, describe, times_after, wait_s
from tests.lane_settings import lane

LINES = st.builds(
    " ".join,
    st.tuples(
        st.sampled_from(["0", "30", "*/7", "0,30", "5-50/9", "*"]),
        st.sampled_from(["*", "0", "2", "1-3", "*/3", "0,2,3", "2-23/5"]),
        st.sampled_from(["*", "*", "1", "29"]),
        st.sampled_from(["*", "*", "3,10", "4"]),
    ),
).map(lambda line: f"{line} *")
# Clocks that change at night and at midnight; and one that left out a whole day.
CHANGES = st.sampled_from(
    [
        ("UTC", "2026-03-29T01:00+00:00"),
        ("Europe/Berlin", "2026-03-29T01:00+00:00"),
        ("Europe/Berlin", "2026-10-25T01:00+00:00"),
        ("America/New_York", "2026-11-01T06:00+00:00"),
        ("Africa/Cairo", "2026-04-23T22:00+00:00"),
        ("Africa/Cairo", "2026-10-29T21:00+00:00"),
        ("Pacific/Apia", "2011-12-30T10:00+00:00"),
    ]
)
AROUND = st.integers(-8 * 3600, 8 * 3600)


def cadence(line: str) -> Cadence:
    return lane(line).cadence


def shown(line: str | dict[str, object], zone: str, after: str, count: int) -> list[str]:
    """The next times as a clock on the wall has them."""
    here = ZoneInfo(zone)
    start = datetime.fromisoformat(after).replace(tzinfo=here).timestamp()
    times = itertools.islice(times_after(lane(line).cadence, here, start), count)
    return [datetime.fromtimestamp(one, tz=here).isoformat(timespec="minutes") for one in times]


@pytest.mark.parametrize(
    ("line", "zone", "after", "times"),
    [
        # Left out: at the next minute there is. Two that meet there are one.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-29T00:00",
            ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"],
        ),
        (
            "0 2,3 * * *",
            "Europe/Berlin",
            "2026-03-29T00:00",
            ["2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"],
        ),
        # Twice: the first time.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-25T00:00",
            ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"],
        ),
        (
            "30 0 * * *",
            "Africa/Cairo",
            "2026-04-23T12:00",
            ["2026-04-24T01:00+03:00", "2026-04-25T00:30+03:00"],
        ),
        ("0 6 29 2 *", "UTC", "2096-03-01T00:00", ["2104-02-29T06:00+00:00"]),
        (
            {"times_a_day": 2, "first": "22:05"},
            "UTC",
            "2026-06-01T11:00",
            ["2026-06-01T22:05+00:00", "2026-06-02T10:05+00:00"],
        ),
    ],
)
def test_a_named_time_comes_once_a_day(
    line: str | dict[str, object], zone: str, after: str, times: list[str]
) -> None:
    assert shown(line, zone, after, len(times)) == times


@given(LINES, CHANGES, AROUND, st.integers(0, 86400))
def test_times_are_the_same_wherever_one_looks_between(
    line: str, change: tuple[str, str], around: int, cut: int
) -> None:
    zone, start = ZoneInfo(change[0]), datetime.fromisoformat(change[1]).timestamp() + around
    times = list(itertools.islice(times_after(cadence(line), zone, start), 40))
    assert times == sorted(set(times))
    assert times[0] > start
    between = min(start + cut, times[-1] - 1)
    assert next(times_after(cadence(line), zone, between)) == next(one for one in times if one > between)


@given(LINES.filter(lambda line: line[0] == "*" or line.split()[1][0] == "*"), CHANGES, AROUND)
def test_what_has_a_star_is_due_at_every_minute_that_the_clock_shows_it(
    line: str, change: tuple[str, str], around: int
) -> None:
    zone, start = ZoneInfo(change[0]), (datetime.fromisoformat(change[1]).timestamp() + around) // 60 * 60
    minutes = [int(start) + 60 * number for number in range(1, 241)]

    def is_shown(moment: int) -> bool:
        wall = datetime.fromtimestamp(moment, tz=zone).replace(tzinfo=None, fold=0)
        return next(CronSim(line, wall - timedelta(minutes=1))) == wall

    found = itertools.takewhile(lambda at: at <= minutes[-1], times_after(cadence(line), zone, start))
    assert list(found) == list(filter(is_shown, minutes))


@pytest.mark.parametrize("number", range(1, 25))
def test_a_day_has_as_many_times_as_were_asked_for_evenly_spread(number: int) -> None:
    start = datetime(2026, 6, 1, tzinfo=UTC).timestamp()
    day = list(itertools.islice(times_after(lane({"times_a_day": number}).cadence, UTC, start - 1), number))
    gaps = {later - one for one, later in itertools.pairwise([*day, day[0] + 86400])}
    assert all(abs(gap - 86400 / number) < 60 for gap in gaps)
    assert len(cron_lines(lane({"times_a_day": number}).cadence)) <= number


@given(st.integers(0, 2**32 - 1), st.floats(0, 4e9), st.floats(0, 300), st.floats(0.01, 66))
def test_a_wait_lies_between_its_bounds_and_is_drawn_again_alike(
    seed: int, end: float, low: float, more: float
) -> None:
    after = AfterEnd(min=low, max=low + more)
    wait = wait_s(after, seed=seed, name="a", end=end)
    assert round(low * 3600) <= wait <= round((low + more) * 3600)
    assert wait == wait_s(after, seed=seed, name="a", end=end)


def test_lanes_with_other_names_or_seeds_do_not_stay_in_step() -> None:
    after = AfterEnd(min=6, max=8)
    assert len({wait_s(after, seed=seed, name=name, end=1000) for seed in range(3) for name in "ab"}) == 6
    days = AfterEnd(min=2, max=2, unit="days")
    assert wait_s(days, seed=0, name="a", end=1000) == 2 * 86400


@pytest.mark.parametrize(
    ("when", "words"),
    [
        ("0 2 * * *", "cron 0 2 * * *, UTC"),
        ({"times_a_day": 3}, "3 times a day, from 00:17 on, UTC"),
        ({"times_a_day": 1, "first": "04:00"}, "once a day, from 04:00 on, UTC"),
        ({"after_end": {"min": 6, "max": 8}}, "6 to 8 hours after the end of the last run"),
        ({"after_end": {"min": 2, "max": 2, "unit": "days"}}, "2 days after the end of the last run"),
    ],
)
def test_a_cadence_is_said(when: str | dict[str, object], words: str) -> None:
    assert describe(lane(when).cadence, UTC) == words
