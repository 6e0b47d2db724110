"""The decision table of docs/pins.md, row by row: the closer of two dates after a campaign."""

from __future__ import annotations

import pytest

from ci.pins.events import Event
from ci.pins.protocol import Decision, Policy
from tests.pin_tracks import (
    BOTH,
    OLD,
    PIN,
    WINDOW,
    asked,
    campaign,
    codes,
    decided,
    on,
    pinned,
    release,
    scheduled,
    went,
    words,
)


def after(newest: float, coming: float | None, day: float = 60) -> Decision:
    records = [OLD, release("2.13.0", newest)]
    events: list[Event] = [PIN, WINDOW, asked(1, "major", 21), scheduled("2.14.0", coming)]
    return decided(records, events, day)


@pytest.mark.parametrize(
    ("newest", "coming", "action"),
    [
        (50, 69, "wait"),
        (50, 70, "upgrade 2.13.0"),
        (50, 71, "upgrade 2.13.0"),
        (50, None, "upgrade 2.13.0"),
        (30, 74, "wait"),
        (30, 75, "upgrade 2.13.0"),
        (59, 60, "wait"),
        (60, 60, "upgrade 2.13.0"),
        (30, 59, "upgrade 2.13.0"),
    ],
    ids=[
        "closer", "equal", "farther", "none scheduled", "the last of the days", "beyond the days",
        "the same day", "both on the day", "was to come before the end",
    ],
)  # fmt: skip
def test_the_closer_of_two_dates(newest: float, coming: float | None, action: str) -> None:
    assert went(after(newest, coming)) == action


def test_what_is_waited_for_is_said_and_until_when() -> None:
    decision = after(30, 70)
    assert (decision.wait_until, decision.pending) == (on(84), (1,))
    assert (
        "`2.14.0` is scheduled for 2026-11-10, closer to the campaign's end on 2026-10-31 than `2.13.0` of "
        "2026-10-01: it is waited for until 2026-11-24 00:00 UTC"
    ) in words(decision)


def test_a_scheduled_day_that_passes_without_a_release_is_waited_out_and_no_longer() -> None:
    assert went(after(30, 70, day=83.99)) == "wait"
    decision = after(30, 70, day=84)
    assert (went(decision), decision.answers) == ("upgrade 2.13.0", (1,))
    assert "`2.14.0` was to come on 2026-11-10 and has not: it is waited for no longer" in words(decision)


def test_the_scheduled_release_is_taken_when_it_comes() -> None:
    events: list[Event] = [PIN, WINDOW, asked(1, "major", 21), scheduled("2.14.0", 70)]
    assert went(decided([*BOTH, release("2.14.0", 68)], events, 68)) == "upgrade 2.14.0"


def test_a_release_that_is_called_off_is_not_waited_for() -> None:
    events: list[Event] = [
        PIN,
        WINDOW,
        asked(1, "major", 21),
        scheduled("2.14.0", 70),
        scheduled("2.14", None, told=62),
    ]
    assert went(decided(BOTH, events, 62)) == "upgrade 2.13.0"


def test_a_release_that_moves_away_is_not_waited_for() -> None:
    events: list[Event] = [
        PIN,
        WINDOW,
        asked(1, "major", 21),
        scheduled("2.14.0", 70),
        scheduled("2.14.0", 99, told=62),
    ]
    assert went(decided(BOTH, events, 62)) == "upgrade 2.13.0"


def test_of_two_that_are_scheduled_the_next_one_counts() -> None:
    events: list[Event] = [
        PIN,
        WINDOW,
        asked(1, "major", 21),
        scheduled("2.15.0", 72),
        scheduled("2.14.0", 65),
    ]
    assert decided(BOTH, events, 60).wait_until == on(79)


def test_a_bug_waits_for_no_scheduled_release() -> None:
    events: list[Event] = [PIN, WINDOW, asked(1, "major", 21), scheduled("2.14.0", 62), asked(2, "bug", 60)]
    decision = decided(BOTH, events, 61)
    assert (went(decision), decision.answers) == ("upgrade 2.13.0", (1, 2))


def test_what_no_campaign_has_held_waits_for_no_scheduled_release() -> None:
    assert went(decided(BOTH, [PIN, scheduled("2.14.0", 62), asked(1, "major", 60)], 61)) == "upgrade 2.13.0"
    events: list[Event] = [PIN, campaign("cards", 20, 30), scheduled("2.14.0", 40), asked(1, "major", 31)]
    assert went(decided(BOTH, events, 32)) == "upgrade 2.13.0"


def test_a_cycle_that_falls_due_after_a_campaign_is_not_its_upgrade() -> None:
    events: list[Event] = [PIN, campaign("cards", 20, 50), scheduled("2.14.0", 55)]
    assert codes(decided(BOTH, events, 56)) == ["cycle"]


def test_after_its_one_upgrade_a_campaign_holds_nothing() -> None:
    events: list[Event] = [PIN, WINDOW, asked(1, "major", 21), pinned("2.13.0", 60, answers=(1,))]
    records = [*BOTH, release("2.13.1", 61, "major")]
    assert codes(decided(records, [*events, scheduled("2.14.0", 63)], 61)) == ["major-release"]


def test_no_days_means_that_no_later_day_is_waited_for() -> None:
    events: list[Event] = [PIN, WINDOW, asked(1, "major", 21), scheduled("2.14.0", 61)]
    assert went(decided(BOTH, events, 60, Policy(closer_days=0))) == "upgrade 2.13.0"


def test_a_mend_of_an_old_line_that_is_to_come_is_not_waited_for() -> None:
    events: list[Event] = [PIN, WINDOW, asked(1, "major", 21), scheduled("2.12.9", 62)]
    assert went(decided(BOTH, events, 60)) == "upgrade 2.13.0"
    assert decided(BOTH, [*events, scheduled("2.14.0", 65)], 60).wait_until == on(79)
