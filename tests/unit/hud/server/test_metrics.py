"""Outages of nightly lanes: when they begin and end, and what they are of."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.hud.server.queries.jobs import Job
from ci.hud.server.queries.metrics import outages
from tests.unit.hud.server.made_jobs import NOW, at, made

DAY, HOUR = 24 * 3600, 1 / 24


def nightlies(*days: float, red: tuple[float, ...] = ()) -> list[Job]:
    """Nightlies that started so many days ago, numbered by the whole of it."""
    return [made(int(day), days=day, conclusion="failure" if day in red else "success") for day in days]


BAD: dict[str, Any] = {"conclusion": "failure"}
OUTAGES: dict[str, tuple[list[Job], float, list[tuple[Any, ...]]]] = {
    "always green": (nightlies(*(day + 0.2 for day in range(9))), 0, []),
    "from the first red start to the end of the next green": (
        nightlies(*range(1, 8), red=(3, 4)), 1, [(at(4), at(2 - HOUR), 2 * DAY + 3600, 2, False, 4)],
    ),
    "from when a missing one should have started": (
        nightlies(1, 2, 7, 8, 9), 1, [(at(6), at(2 - HOUR), 4 * DAY + 3600, 0, True, None)],
    ),
    "a lane that stopped is out until now": (
        nightlies(5, 6, 7), 0, [(at(4), "", 4 * DAY, 0, True, None)],
    ),
    "one and a half days are late": (
        nightlies(1, 2, 3.6, 4.6), 1, [(at(2.6), at(2 - HOUR), 0.6 * DAY + 3600, 0, True, None)],
    ),
    "less is not": (nightlies(1, 2, 3.4), 1, []),
    "once a week misses nothing between": (nightlies(3, 10, 17, 24), 0, []),
    "one bad job of a nightly makes it red": (
        [made(1, run_id="7"), made(2, run_id="7", job_name="other", conclusion="timed_out")], 0,
        [(at(1), "", DAY, 1, False, 2)],
    ),
    "a pull request": ([made(1, event="pull_request", **BAD)], 0, []),
    "under way": ([made(1, status="in_progress")], 0, []),
    "without a start": ([made(1, started_at="", **BAD)], 0, []),
}  # fmt: skip


@pytest.mark.parametrize(("jobs", "days", "wanted"), OUTAGES.values(), ids=OUTAGES)
def test_an_outage_is(jobs: list[Job], days: float, wanted: list[tuple[Any, ...]]) -> None:
    found = outages(jobs, NOW.timestamp() - days * DAY)
    told = [(one.began, one.ended, round(one.seconds), one.red, one.missing, one.first) for one in found]
    assert told == wanted
    assert all(one.long == (one.seconds > 3 * DAY) for one in found)


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
