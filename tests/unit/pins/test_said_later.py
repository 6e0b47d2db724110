"""What is said of a release after it was recorded: that it was taken back, that it is flagged."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.pins.checklist import checklist
from ci.pins.events import Event, Flagged, TakenBack, Upgraded
from ci.pins.situation import situation
from tests.pin_tracks import (
    BOTH,
    NEW,
    OLD,
    PIN,
    WINDOW,
    asked,
    codes,
    decided,
    on,
    pinned,
    release,
    scheduled,
    went,
    words,
)
from tests.pins_desk import new_desk


def taken_back(day: float, version: str = "2.13.0", text: str | None = "it is broken") -> TakenBack:
    one = {"2.12.0": OLD, "2.13.0": NEW}[version]
    return TakenBack(at=on(day), version=version, sha=one.sha, text=text)


def flagged(day: float) -> Flagged:
    return Flagged(at=on(day), version="2.13.0", sha=NEW.sha, flags=("major",))


def test_nothing_leads_to_what_was_taken_back() -> None:
    back = NEW.model_copy(update={"yanked": ""})
    assert went(decided([OLD, back], [PIN], 56)) == "wait"
    assert went(decided(BOTH, [PIN, taken_back(30)], 56)) == "wait"
    assert went(decided(BOTH, [PIN, taken_back(30), flagged(31)], 40)) == "none"
    assert went(decided(BOTH, [PIN, taken_back(30), asked(1, "bug", 31)], 31)) == "upgrade 2.12.0 rebuild"
    assert went(decided(BOTH, [taken_back(30)], 31)) == "upgrade 2.12.0"
    assert went(decided(BOTH, [PIN, taken_back(30), taken_back(40, text=None)], 56)) == "upgrade 2.13.0"


def test_what_was_taken_back_is_reached_by_its_sha_alone() -> None:
    decision = decided(BOTH, [PIN, taken_back(30), asked(1, "major", 31, "2.13.0")], 31)
    assert (went(decision), codes(decision)) == ("wait", ["major", "no-such-release"])
    assert (
        "request 1 is for `2.13.0`, which was taken back: it is taken only where its SHA is named"
        in words(decision)
    )
    assert (
        went(decided(BOTH, [PIN, taken_back(30), asked(1, "major", 31, mend=NEW.sha)], 31))
        == "upgrade 2.13.0"
    )


def test_of_two_builds_the_one_that_was_not_taken_back_is_meant() -> None:
    records = [*BOTH, release("2.13.0", 10, build=1)]
    decision = decided(records, [PIN, taken_back(30), asked(1, "major", 31, "2.13.0")], 31)
    assert decision.target is not None
    assert decision.target.sha == records[-1].sha


def test_a_release_that_was_taken_back_is_not_to_come() -> None:
    assert situation(BOTH, [scheduled("2.13.0", 60), taken_back(30)], now=on(31)).coming == ()


def test_a_pin_that_was_taken_back_is_said_wherever_somebody_looks() -> None:
    events: list[Event] = [PIN, taken_back(30, "2.12.0", "`x` @all")]
    decision = decided([OLD], events, 31)
    said = "`2.12.0`, which is pinned, was taken back (`'x' @all`): if that is a bug here, request one"
    assert (went(decision), codes(decision)) == ("none", ["not-due", "taken-back"])
    assert said in words(decision)
    assert f"  - {said}\n" in checklist("t", decision, [OLD], events, breaks=lambda *_: [])
    again = decided([OLD], [*events, asked(1, "major", 31, "2.12.0")], 31)
    assert codes(again) == ["major", "already-pinned", "taken-back"]


def test_a_flag_that_is_told_later_counts_as_one_that_was_recorded() -> None:
    decision = decided(BOTH, [PIN, flagged(30)], 30)
    assert (went(decision), codes(decision)) == ("upgrade 2.13.0", ["major-release"])
    assert went(decided([OLD], [PIN, flagged(30)], 30)) == "none"


def test_a_flag_that_is_told_after_a_campaign_was_not_held_by_it() -> None:
    events: list[Event] = [pinned("2.12.0", 10), WINDOW, scheduled("2.14.0", 62)]
    assert went(decided(BOTH, [*events, flagged(61)], 61)) == "upgrade 2.13.0"
    assert went(decided(BOTH, [*events, flagged(50)], 61)) == "wait"


def test_suites_stay_deprecated_until_another_release_is_pinned() -> None:
    first = pinned("2.13.0", 20).model_copy(update={"deprecated": ("a",)})
    mend = Upgraded(at=on(30), version="2.13.0", sha="f" * 40, reasons=("a bug",))
    assert situation(BOTH, [PIN, first, mend], now=on(40)).deprecated == ("a",)
    same = pinned("2.14.0", 32).model_copy(update={"image_changed": False})
    assert situation(BOTH, [PIN, first, same], now=on(40)).deprecated == ("a",)
    assert situation(BOTH, [PIN, first, pinned("2.14.0", 32)], now=on(40)).deprecated == ()


def test_status_says_which_suites_are_deprecated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = new_desk(tmp_path, monkeypatch)
    assert "deprecated" not in desk.pins("status", "tuning")
    desk.upgraded(deprecated=("nightly", "weekly"))
    assert "  deprecated on it: nightly, weekly\n" in desk.pins("status", "tuning")
    assert '"deprecated": [\n    "nightly"' in desk.pins("status", "tuning", "--json")
