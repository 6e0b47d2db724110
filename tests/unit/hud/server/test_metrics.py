from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.hud.server.queries.metrics import outages
from tests.unit.hud.server.made_jobs import NOW, at, made

DAY = 24 * 3600


def test_a_lane_that_is_always_green_has_no_outage() -> None:
    assert outages([made(day, days=day + 0.2) for day in range(9)], NOW.timestamp()) == []


def test_an_outage_goes_from_the_first_red_start_to_the_end_of_the_next_green() -> None:
    jobs = [made(day, days=day, conclusion="failure" if day in {3, 4} else "success") for day in range(1, 8)]
    (one,) = outages(jobs, NOW.timestamp() - DAY)
    assert (one.began, one.ended, one.red, one.missing, one.first) == (
        at(4),
        at(2 - 1 / 24),
        2,
        False,
        4,
    )
    assert one.seconds == 2 * DAY + 3600
    assert not one.long


def test_a_missing_nightly_is_an_outage_from_when_it_should_have_started() -> None:
    (one,) = outages([made(day, days=day) for day in (1, 2, 7, 8, 9)], NOW.timestamp() - DAY)
    assert (one.began, one.ended, one.red, one.missing, one.first) == (at(6), at(2 - 1 / 24), 0, True, None)
    assert one.long


@pytest.mark.parametrize(
    ("days", "missing"), [((1, 2, 3.4), False), ((1, 2, 4, 5), True), ((1, 2, 3.6, 4.6), True)]
)
def test_a_nightly_is_missing_after_one_and_a_half_intervals(days: tuple[float, ...], missing: bool) -> None:
    found = outages([made(number, days=day) for number, day in enumerate(days)], NOW.timestamp() - DAY)
    assert [one.missing for one in found] == [True] * missing


def test_a_lane_that_stopped_is_out_until_now() -> None:
    (one,) = outages([made(day, days=day) for day in (5, 6, 7)], NOW.timestamp())
    assert (one.began, one.ended, one.seconds) == (at(4), "", 4 * DAY)


def test_a_lane_that_runs_once_a_week_misses_nothing_between() -> None:
    assert outages([made(day, days=day) for day in (3, 10, 17, 24)], NOW.timestamp()) == []


def test_one_bad_job_of_a_nightly_makes_it_red() -> None:
    jobs = [
        made(1, days=1, run_id="7"),
        made(2, days=1, run_id="7", job_name="other", conclusion="timed_out"),
    ]
    (one,) = outages(jobs, NOW.timestamp())
    assert (one.first, one.red) == (2, 1)


@pytest.mark.parametrize(
    "job",
    [
        made(1, conclusion="failure", event="pull_request"),
        made(1, status="in_progress"),
        made(1, started_at=""),
    ],
)
def test_what_is_no_finished_nightly_is_no_outage(job: object) -> None:
    assert outages([job], NOW.timestamp()) == []  # type: ignore[list-item]  # what parametrize gives has no type


@given(st.lists(st.tuples(st.floats(0.1, 60), st.booleans(), st.sampled_from("ab")), max_size=30))
def test_outages_of_a_lane_are_in_order_and_apart(runs: list[tuple[float, bool, str]]) -> None:
    jobs = [
        made(number, days=days, hours=0, lane=lane, conclusion="success" if good else "failure")
        for number, (days, good, lane) in enumerate(runs)
    ]
    found = outages(jobs, NOW.timestamp())
    assert all(one.seconds >= 0 and (one.red or one.missing) for one in found)
    for lane in "ab":
        own = [one for one in found if one.lane == lane][::-1]
        assert all(early.ended and early.ended <= late.began for early, late in pairwise(own))
    assert sum(one.red for one in found) == sum(not good for _, good, _ in runs)
    assert sorted(map(repr, outages(jobs[::-1], NOW.timestamp()))) == sorted(map(repr, found))
