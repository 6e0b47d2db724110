"""The decision table of docs/pins.md, row by row: the cycle, the image, and what is told."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from ci.core.errors import BadFileError
from ci.pins.events import Event
from ci.pins.protocol import Policy, as_event, decide
from ci.pins.record import Record
from ci.pins.support import Unsupported
from tests.pin_tracks import (
    BOTH,
    MEND,
    NEW,
    OLD,
    PIN,
    POLICY,
    WINDOW,
    asked,
    campaign,
    codes,
    decided,
    ended,
    everything,
    on,
    pinned,
    release,
    sha,
    went,
    words,
)


# The cycle.
@pytest.mark.parametrize(
    ("day", "action"),
    [(0, "none"), (55, "none"), (55.999, "none"), (56, "upgrade 2.13.0"), (400, "upgrade 2.13.0")],
)
def test_an_upgrade_is_due_when_the_last_is_fifty_six_days_old(day: float, action: str) -> None:
    decision = decided(BOTH, [PIN], day)
    assert went(decision) == action
    assert decision.next_due == on(56)


def test_why_is_written_down() -> None:
    assert words(decided(BOTH, [PIN], 60)) == (
        "the last upgrade is 60 days old, and 56 make the next one due"
    )
    assert words(decided(BOTH, [PIN], 1)) == "the next upgrade is due on 2026-10-27 00:00 UTC"


def test_days_are_days_where_a_clock_is_turned_for_winter() -> None:
    # 25 October 2026 has 25 hours in Berlin: on its wall 56 days are over an hour early.
    berlin = ZoneInfo("Europe/Berlin")
    early = on(56).astimezone(berlin) - timedelta(minutes=30)
    assert decide(POLICY, BOTH, [PIN], now=early, supports=everything).action == "none"
    due = on(56).astimezone(berlin)
    assert decide(POLICY, BOTH, [PIN], now=due, supports=everything).action == "upgrade"


def test_the_cycle_is_a_setting() -> None:
    assert went(decided(BOTH, [PIN], 30, Policy(cycle_days=30))) == "upgrade 2.13.0"


def test_a_due_cycle_without_a_newer_release_waits_for_one() -> None:
    decision = decided([OLD], [PIN], 60)
    assert went(decision) == "wait"
    assert codes(decision) == ["cycle", "no-release"]
    assert went(decided(BOTH, [PIN], 61)) == "upgrade 2.13.0"


def test_any_upgrade_begins_the_cycle_anew() -> None:
    assert went(decided(BOTH, [PIN, pinned("2.12.0", 50, build=7)], 60)) == "none"


# The first pin.
def test_the_first_pin_is_the_newest_release() -> None:
    decision = decided(BOTH, [], 1)
    assert went(decision) == "upgrade 2.13.0"
    assert (codes(decision), decision.before, decision.next_due) == (["first"], "", None)
    assert decision.image_changed


def test_a_track_without_a_release_has_nothing_to_pin() -> None:
    decision = decided([], [], 1)
    assert (went(decision), words(decision)) == ("none", "no release is recorded")


def test_a_bug_waits_where_there_is_nothing_to_build_anew() -> None:
    decision = decided([], [asked(1, "bug", 1)], 1)
    assert (went(decision), decision.pending) == ("wait", (1,))
    assert "nothing is pinned, and no release is recorded" in words(decision)
    decision = decided([NEW], [asked(1, "bug", 1)], 21)
    assert (went(decision), decision.answers) == ("upgrade 2.13.0", (1,))


def one_suite(_: Record | None, __: Record) -> tuple[Unsupported, ...]:
    return (Unsupported(suite="fine-tuning", why=("needs `torch<2.13`, and it has `2.13.0`",)),)


def test_suites_that_the_new_image_cannot_support_are_deprecated() -> None:
    decision = decide(POLICY, BOTH, [PIN], now=on(56), supports=one_suite)
    assert [one.suite for one in decision.deprecates] == ["fine-tuning"]
    assert as_event(decision, on(56)).deprecated == ("fine-tuning",)


def test_the_pinned_release_and_the_next_are_compared() -> None:
    seen = []

    def supports(before: Record | None, after: Record) -> tuple[Unsupported, ...]:
        seen.append((before, after))
        return ()

    decide(POLICY, BOTH, [PIN], now=on(56), supports=supports)
    decide(POLICY, BOTH, [], now=on(56), supports=supports)
    assert seen == [(OLD, NEW), (None, NEW)]


def test_nothing_is_deprecated_where_the_image_is_the_same() -> None:
    same = NEW.model_copy(update={"sha": OLD.sha})
    decision = decide(POLICY, [OLD, same], [PIN], now=on(56), supports=one_suite)
    assert (went(decision), decision.image_changed, decision.deprecates) == ("upgrade 2.13.0", False, ())
    assert "the image is the one that is pinned already: nothing is deprecated" in words(decision)
    assert not as_event(decision, on(56)).image_changed


def test_of_a_build_that_nobody_has_recorded_nothing_is_deprecated() -> None:
    events: list[Event] = [PIN, asked(1, "bug", 1, mend=MEND)]
    decision = decide(POLICY, [OLD], events, now=on(2), supports=one_suite)
    assert (decision.image_changed, decision.deprecates) == (True, ())


# What was told.
def test_a_request_that_is_told_twice_is_one() -> None:
    events: list[Event] = [PIN, asked(1, "bug", 21), asked(1, "bug", 22)]
    assert decided(BOTH, events, 22).answers == (1,)
    assert went(decided(BOTH, [*events[:2], pinned("2.13.0", 22, answers=(1,)), events[2]], 23)) == "none"


def test_two_requests_with_one_id_are_refused() -> None:
    with pytest.raises(BadFileError, match="two requests have the id 1") as caught:
        decided(BOTH, [PIN, asked(1, "bug", 21), asked(1, "major", 21)], 22)
    assert caught.value.remedy == "give the later one an id of its own"
    assert caught.value.exit_code == 2


def test_an_end_of_a_campaign_nobody_knows_is_nothing() -> None:
    assert went(decided(BOTH, [PIN, ended("cards", 3)], 4)) == "none"


def test_what_is_decided_becomes_an_event() -> None:
    decision = decided(BOTH, [PIN, asked(1, "major", 20), asked(2, "bug", 21)], 22)
    event = as_event(decision, on(22))
    assert event.before == f"2.12.0@{sha('2.12.0')}"
    assert (event.version, event.sha, event.answers) == ("2.13.0", sha("2.13.0"), (1, 2))
    assert event.reasons == (
        "request 1 (major), told on 2026-09-21", "request 2 (bug), told on 2026-09-22",
    )  # fmt: skip


def test_what_is_no_upgrade_becomes_no_event() -> None:
    with pytest.raises(ValueError, match="no upgrade"):
        as_event(decided(BOTH, [PIN], 1), on(1))


def test_what_others_have_named_is_no_markup() -> None:
    decision = decided(
        BOTH, [PIN, campaign("`x`\n# <b>\x1b[31m", 20, None), asked(1, "major", 21, "`*`")], 22
    )
    assert "campaign `'x' # <b>` is on" in words(decision)
    assert "request 1 is for `'*'`, which" in words(decision)


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
