"""The decision table of docs/pins.md, row by row: campaigns, what they held, and the closer of two dates."""

from __future__ import annotations

import pytest

from ci.pins.events import Event, Reason
from ci.pins.protocol import Decision, Policy, as_event
from ci.pins.record import Flag
from tests.pin_tracks import (
    BOTH,
    MEND,
    OLD,
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
    scheduled,
    went,
    withdrawn,
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


@pytest.mark.parametrize("reason", ["major", "performance"])
def test_a_campaign_holds_requests(reason: Reason) -> None:
    decision = decided(BOTH, [PIN, WINDOW, asked(1, reason, 21)], 22)
    assert (went(decision), decision.pending, decision.campaign) == ("wait", (1,), "cards")
    assert decision.wait_until == on(60)
    assert codes(decision) == [reason, "campaign"]
    assert "campaign `cards` is on: nothing but bugs and regressions changes the pin" in words(decision)


@pytest.mark.parametrize("flag", ["major", "performance"])
def test_a_campaign_holds_a_flagged_release(flag: Flag) -> None:
    decision = decided([OLD, release("2.13.0", 20, flag)], [PIN, WINDOW], 22)
    assert (went(decision), codes(decision)) == ("wait", [f"{flag}-release", "campaign"])


def test_a_campaign_holds_the_cycle() -> None:
    decision = decided(BOTH, [PIN, WINDOW], 57)
    assert (went(decision), codes(decision)) == ("wait", ["cycle", "campaign"])
    assert went(decided(BOTH, [PIN, WINDOW], 60)) == "upgrade 2.13.0"


def test_a_campaign_holds_the_first_pin() -> None:
    assert went(decided(BOTH, [WINDOW], 22)) == "wait"


@pytest.mark.parametrize("reason", ["bug", "regression"])
def test_a_campaign_does_not_hold_a_bug(reason: Reason) -> None:
    decision = decided(BOTH, [PIN, WINDOW, asked(1, reason, 21)], 22)
    assert (went(decision), decision.answers) == ("upgrade 2.13.0", (1,))
    decision = decided([OLD], [PIN, WINDOW, asked(1, reason, 21, mend=MEND)], 22)
    assert (went(decision), decision.answers) == ("upgrade 2.12.0 rebuild", (1,))


def test_a_campaign_is_said_where_nothing_is_asked_for() -> None:
    decision = decided(BOTH, [PIN, WINDOW], 22)
    assert (went(decision), decision.campaign) == ("none", "cards")


def test_a_mend_in_a_campaign_leaves_wishes_pending() -> None:
    records = [OLD, release("2.12.1", 10), release("2.13.0", 20)]
    events: list[Event] = [PIN, WINDOW, asked(1, "performance", 21, "2.13.0"), asked(2, "bug", 22, "2.12.1")]
    decision = decided(records, events, 23)
    assert (went(decision), decision.answers, decision.pending) == ("upgrade 2.12.1", (2,), (1,))
    after = [*events, as_event(decision, on(23))]
    assert went(decided(records, after, 23)) == "wait"
    assert went(decided(records, after, 60)) == "upgrade 2.13.0"


def test_a_bug_that_leads_to_the_wished_release_answers_the_wish_as_well() -> None:
    events: list[Event] = [PIN, WINDOW, asked(1, "performance", 21), asked(2, "bug", 22)]
    decision = decided(BOTH, events, 23)
    assert (went(decision), decision.answers) == ("upgrade 2.13.0", (1, 2))


def test_a_build_with_a_mend_answers_no_wish() -> None:
    events: list[Event] = [PIN, WINDOW, asked(1, "performance", 21), asked(2, "bug", 22, mend=MEND)]
    decision = decided([OLD], events, 23)
    assert (decision.answers, decision.pending) == ((2,), (1,))


def test_after_a_campaign_the_last_of_three_pendings_counts() -> None:
    records = [*BOTH, release("2.14.0", 40)]
    events: list[Event] = [
        PIN, WINDOW, asked(1, "performance", 21, "2.13.0"), asked(2, "major", 30),
        asked(3, "performance", 35),
    ]  # fmt: skip
    decision = decided(records, events, 60)
    assert (went(decision), decision.answers, decision.supersedes) == ("upgrade 2.14.0", (3,), (1, 2))
    assert "requests 1 and 2 are superseded by request 3" in words(decision)
    assert "the campaign ended on 2026-10-31: one upgrade, to the newest release" in words(decision)
    assert went(decided(records, [*events, as_event(decision, on(60))], 60)) == "none"


def test_the_one_upgrade_goes_to_the_newest_release_whatever_was_named() -> None:
    records = [*BOTH, release("2.14.0", 40)]
    decision = decided(records, [PIN, WINDOW, asked(1, "major", 21, "2.13.0")], 60)
    assert went(decision) == "upgrade 2.14.0"


def test_of_three_pendings_without_a_campaign_the_last_counts_too() -> None:
    records = [*BOTH, release("2.14.0", 21)]
    events: list[Event] = [
        PIN,
        asked(1, "major", 22, "2.14.0"),
        asked(2, "major", 22),
        asked(3, "performance", 22, "2.13.0"),
    ]
    decision = decided(records, events, 22)
    assert (went(decision), decision.answers, decision.supersedes) == ("upgrade 2.13.0", (3,), (1, 2))
    assert went(decided(records, [*events, as_event(decision, on(22))], 22)) == "none"


def test_a_withdrawn_request_is_neither_answered_nor_superseded() -> None:
    events: list[Event] = [PIN, WINDOW, asked(1, "major", 21), asked(2, "performance", 22), withdrawn(2, 23)]
    decision = decided(BOTH, events, 60)
    assert (decision.answers, decision.supersedes, decision.pending) == ((1,), (), ())
    assert went(decided(BOTH, [PIN, asked(1, "bug", 21), withdrawn(1, 22)], 23)) == "none"


def test_what_nobody_has_asked_for_can_be_withdrawn() -> None:
    assert went(decided(BOTH, [PIN, withdrawn(7, 1)], 2)) == "none"


# When campaigns begin and end.
def test_a_planned_campaign_holds_nothing_before_it_begins_nor_from_its_end_on() -> None:
    events: list[Event] = [PIN, WINDOW, asked(1, "major", 1)]
    assert went(decided(BOTH, events, 19.99)) == "upgrade 2.13.0"
    assert went(decided(BOTH, events, 20)) == "wait"
    assert went(decided(BOTH, events, 59.99)) == "wait"
    assert went(decided(BOTH, events, 60)) == "upgrade 2.13.0"


def test_a_campaign_without_a_planned_end_lasts_until_it_is_ended() -> None:
    events: list[Event] = [PIN, campaign("cards", 20, None), asked(1, "major", 21)]
    decision = decided(BOTH, events, 500)
    assert (went(decision), decision.wait_until) == ("wait", None)
    assert went(decided(BOTH, [*events, ended("cards", 500)], 500)) == "upgrade 2.13.0"


def test_a_campaign_that_ended_early_holds_nothing_any_more() -> None:
    events: list[Event] = [PIN, WINDOW, asked(1, "major", 21), ended("cards", 30)]
    assert went(decided(BOTH, events, 30)) == "upgrade 2.13.0"


def test_a_campaign_that_was_told_to_end_late_ended_then() -> None:
    # Nothing was decided since its planned end; the days count from when it really ended.
    events: list[Event] = [PIN, WINDOW, asked(1, "major", 21), scheduled("2.14.0", 70), ended("cards", 66)]
    decision = decided(BOTH, events, 66)
    assert (went(decision), decision.wait_until) == ("wait", on(84))
    assert "closer to the campaign's end on 2026-11-06" in words(decision)


def test_a_campaign_that_is_told_again_was_moved() -> None:
    events: list[Event] = [PIN, WINDOW, asked(1, "major", 21), campaign("cards", 20, 80, told=59)]
    assert went(decided(BOTH, events, 70)) == "wait"
    assert went(decided(BOTH, events, 80)) == "upgrade 2.13.0"


def test_a_campaign_that_was_called_off_held_nothing() -> None:
    events: list[Event] = [PIN, WINDOW, asked(1, "major", 5), ended("cards", 10), scheduled("2.14.0", 12)]
    assert codes(decided(BOTH, events, 11)) == ["major"]


def test_two_campaigns_that_overlap_hold_until_both_are_over() -> None:
    events: list[Event] = [PIN, campaign("a", 20, 40), campaign("b", 30, 50), asked(1, "major", 21)]
    decision = decided(BOTH, events, 35)
    assert (decision.campaign, decision.wait_until) == ("a", on(50))
    assert "campaigns `a` and `b` are on" in words(decision)
    assert decided(BOTH, events, 45).campaign == "b"
    # 2.14.0 is 5 days from the end of the later one, 2.13.0 is 30.
    decision = decided(BOTH, [*events, scheduled("2.14.0", 55)], 50)
    assert (went(decision), decision.wait_until) == ("wait", on(69))


def test_of_two_campaigns_the_one_without_an_end_tells_nobody_when() -> None:
    events: list[Event] = [PIN, campaign("a", 20, 40), campaign("b", 30, None), asked(1, "major", 21)]
    assert decided(BOTH, events, 35).wait_until is None
