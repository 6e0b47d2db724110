"""The decision table of docs/pins.md, row by row: both directions of the clock."""

from __future__ import annotations

from ci.pins.events import Event
from ci.pins.protocol import as_event
from tests.pin_tracks import (
    BOTH,
    PIN,
    WINDOW,
    asked,
    campaign,
    codes,
    decided,
    ended,
    on,
    pinned,
    release,
    went,
    words,
)


def test_a_clock_that_went_back_makes_no_upgrade_again_and_says_so() -> None:
    events: list[Event] = [PIN, asked(1, "bug", 57), pinned("2.13.0", 60, answers=(1,))]
    decision = decided(BOTH, events, 10)
    assert (went(decision), decision.next_due) == ("none", on(116))
    assert codes(decision) == ["not-due", "clock"]
    assert "the last upgrade was at 2026-10-31 00:00 UTC, from when the cycle counts: check" in words(
        decision
    )


def test_a_clock_that_went_back_loses_no_request() -> None:
    events: list[Event] = [PIN, asked(1, "bug", 57), asked(2, "major", 58)]
    decision = decided(BOTH, events, 10)
    assert (went(decision), decision.answers) == ("upgrade 2.13.0", (1, 2))
    assert "it is 2026-09-11 00:00 UTC here, and something was told at 2026-10-29" in words(decision)
    assert went(decided(BOTH, [*events, as_event(decision, on(10))], 10)) == "none"


def test_an_upgrade_that_a_clock_has_dated_too_early_is_not_older_than_what_it_answers() -> None:
    events: list[Event] = [PIN, asked(1, "bug", 57), pinned("2.13.0", -300, answers=(1,))]
    records = [*BOTH, release("2.14.0", 58)]
    assert went(decided(records, events, 59)) == "none"
    assert decided(records, events, 59).next_due == on(57 + 56)


def test_a_clock_that_jumps_ahead_makes_one_upgrade_and_after_it_none() -> None:
    decision = decided(BOTH, [PIN], 4000)
    events: list[Event] = [PIN, as_event(decision, on(4000))]
    assert went(decided(BOTH, events, 4000)) == "none"
    assert went(decided(BOTH, events, 60)) == "none"
    assert "clock" in codes(decided(BOTH, events, 60))


def test_a_campaign_that_has_begun_is_on_though_the_clock_says_it_is_still_to_come() -> None:
    events: list[Event] = [PIN, campaign("cards", 20, None, told=20), asked(1, "major", 21)]
    assert went(decided(BOTH, events, 10)) == "wait"


def test_a_campaign_that_was_ended_is_over_though_the_clock_says_it_still_goes_on() -> None:
    events: list[Event] = [PIN, WINDOW, asked(1, "major", 21), ended("cards", 50)]
    assert went(decided(BOTH, events, 40)) == "upgrade 2.13.0"


def test_nor_is_it_older_than_the_upgrade_before_it() -> None:
    events: list[Event] = [PIN, pinned("2.12.0", -300, build=7)]
    assert decided(BOTH, events, 10).next_due == on(56)


def test_what_was_told_beside_an_upgrade_does_not_move_it() -> None:
    # Two branches of a ledger that are merged have their lines in any order.
    events: list[Event] = [asked(2, "performance", 30, "9.9"), PIN]
    assert decided(BOTH, events, 57).next_due == on(56)
