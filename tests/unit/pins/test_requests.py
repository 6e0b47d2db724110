"""The decision table of docs/pins.md, row by row: what makes an upgrade out of the cycle."""

from __future__ import annotations

import pytest

from ci.pins.events import Event, Reason, Upgraded
from ci.pins.protocol import as_event
from ci.pins.record import Flag
from tests.pin_tracks import (
    BOTH,
    MEND,
    NEW,
    OLD,
    PIN,
    asked,
    codes,
    decided,
    on,
    pinned,
    release,
    went,
    withdrawn,
    words,
)


@pytest.mark.parametrize("flag", ["major", "performance"])
def test_a_flagged_release_makes_an_upgrade(flag: Flag) -> None:
    decision = decided([OLD, release("2.13.0", 20, flag)], [PIN], 21)
    assert went(decision) == "upgrade 2.13.0"
    assert codes(decision) == [f"{flag}-release"]


def test_a_flag_below_the_newest_release_leads_to_the_newest() -> None:
    records = [OLD, release("2.13.0", 20, "major"), release("2.13.1", 22)]
    assert went(decided(records, [PIN], 23)) == "upgrade 2.13.1"


def test_a_flag_of_what_is_pinned_makes_nothing() -> None:
    assert went(decided([release("2.12.0", -10, "major")], [PIN], 1)) == "none"


@pytest.mark.parametrize("reason", ["major", "performance", "bug", "regression"])
def test_a_request_makes_an_upgrade_to_the_newest_release(reason: Reason) -> None:
    decision = decided(BOTH, [PIN, asked(1, reason, 21)], 21)
    assert (went(decision), decision.answers, decision.pending) == ("upgrade 2.13.0", (1,), ())
    assert codes(decision) == [reason]
    assert words(decision) == f"request 1 ({reason}), told on 2026-09-22"


@pytest.mark.parametrize("reason", ["major", "performance"])
def test_a_request_without_a_newer_release_waits(reason: Reason) -> None:
    decision = decided([OLD], [PIN, asked(1, reason, 5)], 6)
    assert (went(decision), decision.pending) == ("wait", (1,))
    assert codes(decision) == [reason, "no-release"]
    assert went(decided(BOTH, [PIN, asked(1, reason, 5)], 21)) == "upgrade 2.13.0"


@pytest.mark.parametrize("reason", ["bug", "regression"])
def test_a_bug_without_a_newer_release_is_a_build_of_the_same_with_its_mend(reason: Reason) -> None:
    decision = decided([OLD], [PIN, asked(1, reason, 5, mend=MEND)], 6)
    assert went(decision) == "upgrade 2.12.0 rebuild"
    assert decision.target is not None
    assert (decision.target.sha, decision.answers, decision.image_changed) == (MEND, (1,), True)
    assert f"`2.12.0` is built anew with the mend `{MEND}`" in words(decision)


def test_a_bug_whose_mend_nobody_has_named_is_not_lost() -> None:
    decision = decided([OLD], [PIN, asked(1, "bug", 5)], 6)
    assert (went(decision), decision.answers) == ("upgrade 2.12.0 rebuild", (1,))
    assert "a mend that is still to be named" in words(decision)


def test_of_two_mends_the_later_one_is_built_and_both_bugs_are_answered() -> None:
    events: list[Event] = [
        PIN,
        asked(1, "bug", 5, mend=MEND),
        asked(2, "regression", 5, mend="f" * 12),
        asked(3, "bug", 5),
    ]
    decision = decided([OLD], events, 6)
    assert decision.target is not None
    assert (decision.target.sha, decision.answers, decision.supersedes) == ("f" * 12, (1, 2, 3), ())


def test_a_bug_and_a_wish_are_one_upgrade() -> None:
    decision = decided(BOTH, [PIN, asked(1, "bug", 21), asked(2, "performance", 21)], 21)
    assert (went(decision), decision.answers, decision.supersedes) == ("upgrade 2.13.0", (1, 2), ())


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_of_two_bugs_the_newer_release_is_taken_since_it_holds_both_mends(order: tuple[int, int]) -> None:
    records = [OLD, release("2.12.1", 10), NEW]
    events = {1: asked(1, "bug", 21, "2.12.1"), 2: asked(2, "bug", 21)}
    decision = decided(records, [PIN, *(events[number] for number in order)], 21)
    assert (went(decision), decision.answers) == ("upgrade 2.13.0", (1, 2))


def test_a_release_comes_before_a_build_of_what_is_pinned() -> None:
    told = [asked(1, "bug", 21), asked(2, "bug", 21, "2.12.0", mend=MEND)]
    assert went(decided(BOTH, [PIN, *told], 21)) == "upgrade 2.13.0"


def test_a_mend_for_what_is_pinned_is_built_of_that_though_there_is_a_newer_release() -> None:
    decision = decided(BOTH, [PIN, asked(1, "bug", 21, "2.12.0", mend=MEND)], 21)
    assert went(decision) == "upgrade 2.12.0 rebuild"


def test_a_request_gets_the_release_it_names() -> None:
    records = [*BOTH, release("2.14.0", 25)]
    decision = decided(records, [PIN, asked(1, "performance", 26, "2.13")], 26)
    assert went(decision) == "upgrade 2.13.0"
    assert words(decision) == "request 1 (performance) asks for `2.13`, told on 2026-09-27"


# What is pinned already, and what is not there.
@pytest.mark.parametrize("version", ["2.13.0", "2.12.0"])
def test_a_request_for_what_is_pinned_or_older_waits_and_says_so(version: str) -> None:
    events: list[Event] = [pinned("2.13.0", 20), asked(1, "major", 22, version)]
    decision = decided(BOTH, events, 23)
    assert (went(decision), codes(decision)) == ("wait", ["major", "already-pinned"])
    assert f"request 1 is for `{version}`, and `2.13.0` is pinned already: withdraw it" in words(decision)
    assert went(decided(BOTH, [*events, withdrawn(1, 24)], 25)) == "none"


def test_it_is_answered_with_the_next_upgrade() -> None:
    events: list[Event] = [pinned("2.13.0", 20), asked(1, "major", 22, "2.13.0")]
    decision = decided([*BOTH, release("2.14.0", 30, "major")], events, 31)
    assert (went(decision), decision.answers) == ("upgrade 2.14.0", (1,))


def test_who_asks_for_what_is_pinned_replaces_nobody() -> None:
    events: list[Event] = [pinned("2.13.0", 20), asked(1, "major", 31), asked(2, "major", 31, "2.13.0")]
    decision = decided([*BOTH, release("2.14.0", 30)], events, 31)
    assert (went(decision), decision.answers, decision.supersedes) == ("upgrade 2.14.0", (1, 2), ())


def test_a_bug_in_what_is_pinned_is_built_anew() -> None:
    decision = decided([OLD], [PIN, asked(1, "bug", 22, "2.12.0")], 23)
    assert (went(decision), decision.answers) == ("upgrade 2.12.0 rebuild", (1,))


@pytest.mark.parametrize("reason", ["major", "performance"])
def test_a_request_for_what_does_not_exist_waits_until_it_does(reason: Reason) -> None:
    events: list[Event] = [PIN, asked(1, reason, 22, "9.9")]
    decision = decided(BOTH, events, 23)
    assert (went(decision), codes(decision)) == ("wait", [reason, "no-such-release"])
    assert "request 1 is for `9.9`, which the ledger has no record of" in words(decision)
    assert went(decided([*BOTH, release("9.9", 30)], events, 31)) == "upgrade 9.9"


def test_it_holds_no_other_request_up_and_is_not_answered_by_it() -> None:
    events: list[Event] = [PIN, asked(1, "performance", 21), asked(2, "major", 22, "9.9")]
    decision = decided(BOTH, events, 23)
    assert went(decision) == "upgrade 2.13.0"
    assert (decision.answers, decision.supersedes, decision.pending) == ((1,), (), (2,))


def test_a_bug_that_names_what_does_not_exist_is_not_lost() -> None:
    decision = decided(BOTH, [PIN, asked(1, "bug", 22, "9.9")], 23)
    assert (went(decision), decision.answers) == ("upgrade 2.13.0", (1,))
    assert "request 1 is for `9.9`, which the ledger has no record of" in words(decision)


# Going back.
def test_a_regression_goes_back_to_the_release_it_names_and_stays_there() -> None:
    events: list[Event] = [
        PIN, pinned("2.13.0", 20), asked(1, "performance", 21), asked(2, "regression", 22, "2.12.0"),
    ]  # fmt: skip
    records = [OLD, release("2.13.0", 20, "major")]
    decision = decided(records, events, 22)
    assert (went(decision), decision.answers, decision.supersedes) == ("upgrade 2.12.0", (2,), (1,))
    assert "request 1 is superseded by this step back" in words(decision)
    assert went(decided(records, [*events, as_event(decision, on(22))], 22)) == "none"


BACK: list[Event] = [
    PIN, pinned("2.13.0", 20), asked(1, "regression", 22, "2.12.0"),
    Upgraded(at=on(22), version="2.12.0", sha=OLD.sha, reasons=("request 1",), answers=(1,)),
]  # fmt: skip


def test_the_cycle_passes_over_what_was_gone_back_from_and_says_so() -> None:
    decision = decided(BOTH, BACK, 78)
    assert (went(decision), codes(decision)) == ("wait", ["cycle", "no-release"])
    assert "but for `2.13.0`: that was gone back from, and a newer one or a request" in words(decision)
    assert went(decided([*BOTH, release("2.13.1", 70)], BACK, 78)) == "upgrade 2.13.1"


def test_nobody_is_led_to_what_was_gone_back_from_but_who_names_it() -> None:
    assert went(decided(BOTH, [*BACK, asked(2, "performance", 30)], 30)) == "wait"
    assert went(decided(BOTH, [*BACK, asked(2, "bug", 30)], 30)) == "upgrade 2.12.0 rebuild"
    assert went(decided(BOTH, [*BACK, asked(2, "performance", 30, "2.13.0")], 30)) == "upgrade 2.13.0"
    again = [*BACK, pinned("2.13.0", 30), asked(3, "regression", 31, "2.12.0")]
    assert went(decided(BOTH, again, 31)) == "upgrade 2.12.0"


# The image.


def test_a_bug_in_what_was_built_anew_does_not_take_its_mend_away() -> None:
    built = Upgraded(at=on(5), version="2.12.0", sha=MEND, reasons=("request 1 (bug)",), answers=(1,))
    decision = decided([OLD], [PIN, built, asked(2, "bug", 6, "2.12.0", mend="f" * 40)], 6)
    assert (went(decision), decision.target and decision.target.sha) == ("upgrade 2.12.0 rebuild", "f" * 40)
    decision = decided([OLD], [PIN, built, asked(2, "bug", 6, "2.12.0")], 6)
    assert went(decision) == "upgrade 2.12.0 rebuild"


def test_it_does_where_somebody_names_the_build_before() -> None:
    built = Upgraded(at=on(5), version="2.12.0", sha=MEND, reasons=("request 1 (bug)",), answers=(1,))
    events: list[Event] = [PIN, built, asked(2, "major", 6), asked(3, "regression", 6, mend=OLD.sha)]
    decision = decided([OLD], events, 6)
    assert (went(decision), decision.target and decision.target.sha) == ("upgrade 2.12.0", OLD.sha)
    assert (decision.answers, decision.pending) == ((3,), (2,))


def test_the_build_with_a_mend_is_no_newer_release_once_it_is_recorded() -> None:
    built = Upgraded(at=on(5), version="2.12.0", sha=MEND, reasons=("request 1 (bug)",), answers=(1,))
    assert went(decided([OLD, release("2.12.0", 6, "major", build=1)], [PIN, built], 10)) == "none"
