"""What the protocol takes for granted, and when it no longer holds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ci.pins.assumptions import Assumption, assumptions
from ci.pins.events import Upgraded
from ci.pins.record import Record

NOW = datetime(2026, 11, 23, tzinfo=UTC)


def upgraded(days_ago: float) -> Upgraded:
    return Upgraded(at=NOW - timedelta(days=days_ago), version="1", sha="a" * 64, reasons=())


def released(days_ago: float, sha: str) -> Record:
    return Record(
        track="torch", version=sha, sha=sha * 12, source="here", recorded_at=NOW,
        released_at=NOW - timedelta(days=days_ago), packages={}, direct={},
    )  # fmt: skip


def of_upgrades(*days_ago: float) -> Assumption:
    return assumptions([], [upgraded(one) for one in days_ago], cycle_days=56, now=NOW)[0]


def of_releases(*releases: tuple[float, str]) -> Assumption:
    return assumptions([released(*one) for one in releases], [], cycle_days=56, now=NOW)[1]


@pytest.mark.parametrize(
    ("days_ago", "holds"),
    [
        ((), None),
        ((3,), None),
        ((56, 0), True),
        ((55, 0), False),
        ((200, 120, 60, 4), True),
        ((1, 30), False),
    ],
)
def test_upgrades_are_no_more_than_one_in_eight_weeks(
    days_ago: tuple[float, ...], holds: bool | None
) -> None:
    assert of_upgrades(*days_ago).holds is holds


def test_what_no_longer_holds_says_what_was_seen() -> None:
    assert of_upgrades(120, 30, 3).line == (
        "no more than one upgrade in 56 days: NO LONGER HOLDS: 1 of 2 in a year came sooner after "
        "the one before, the last on 2026-11-20, 27 days after it"
    )


def test_what_was_a_year_ago_or_is_to_come_counts_no_more() -> None:
    assert of_upgrades(400, 390, 10, -5).holds is None
    assert of_releases((400, "a"), (390, "b"), (10, "c"), (-5, "d")).holds is None


@pytest.mark.parametrize(
    ("releases", "holds"),
    [
        ((), None),
        (((9, "a"),), None),
        (((112, "a"), (110, "b"), (0, "c")), True),
        (((100, "a"), (60, "b"), (0, "c")), False),
        (((100, "a"), (60, "a"), (0, "c")), True),
    ],
)
def test_what_is_released_changes_rarely_on_average(
    releases: tuple[tuple[float, str], ...], holds: bool | None
) -> None:
    assert of_releases(*releases).holds is holds


def test_a_number_of_releases_is_told() -> None:
    assert of_releases((20, "a"), (10, "b"), (0, "c")).seen == "3 in the last 365 days, one in 10.0 days"
    assert "cannot be told yet: 1 in the last 365 days" in of_releases((20, "a")).line
