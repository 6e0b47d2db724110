"""The protocol of docs/pins.md, case by case."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.config.pins_model import Pins, Suite
from ci.core.errors import BadFileError
from ci.pins.decide import as_event, decide
from ci.pins.events import Event, Reason
from ci.pins.record import Flag, Record
from ci.pins.releases import Pinned, Releases, same_sha, same_version
from ci.pins.state import fold
from ci.pins.words import listed, named
from tests.pin_tracks import (
    BOTH,
    MEND,
    NEW,
    OLD,
    PIN,
    PINS,
    WINDOW,
    asked,
    campaign,
    decided,
    ended,
    flagged,
    on,
    pinned,
    release,
    scheduled,
    sha,
    taken_back,
    went,
    withdrawn,
)

Events = Sequence[Event]
WISHES: tuple[Reason, ...] = ("major", "performance")
BUGS: tuple[Reason, ...] = ("bug", "regression")
FLAGS: tuple[Flag, ...] = ("major", "performance")


def check(
    records: Sequence[Record], events: Events, day: float, wanted: str, /, words: str = "", **fields: Any
) -> None:
    """Decide, and compare what is decided; `codes` are of its reasons, `words` are among them."""
    decision = decided(records, events, day)
    assert went(decision) == wanted, decision
    assert words in "; ".join(one.words for one in decision.reasons)
    said = {"codes": [one.code for one in decision.reasons], **decision.model_dump()}
    assert {name: said[name] for name in fields} == fields


def test_the_cycle_makes_an_upgrade_every_eight_weeks() -> None:
    for day, wanted in ((0, "none"), (55.999, "none"), (56, "2.13.0"), (400, "2.13.0")):
        check(BOTH, [PIN], day, wanted, next_due=on(56))
    check(BOTH, [PIN], 60, "2.13.0", "the last upgrade was 60 days ago, and one is due every 56 days")
    check(BOTH, [PIN], 1, "none", "the next upgrade is due on 2026-10-27 00:00 UTC")
    assert went(decided(BOTH, [PIN], 30, Pins(cycle_days=30))) == "2.13.0"
    check([OLD], [PIN], 60, "wait", codes=["cycle", "no-release"])
    check(BOTH, [PIN, pinned("2.12.0", 50, build=7)], 60, "none")
    # 25 October 2026 has 25 hours in Berlin: on its wall 56 days are over an hour early.
    due = on(56).astimezone(ZoneInfo("Europe/Berlin"))
    for at, action in ((due - timedelta(minutes=30), "none"), (due, "upgrade")):
        assert decide(PINS, BOTH, [PIN], now=at, suites=[]).action == action


def test_the_first_pin_is_the_newest_release() -> None:
    check(BOTH, [], 1, "2.13.0", codes=["first"], before="", next_due=None, image_changed=True)
    check([], [], 1, "none", "no release is recorded")
    check([], [asked(1, "bug", 1)], 1, "wait", "nothing is pinned, and no release is recorded", pending=(1,))
    check([NEW], [asked(1, "bug", 1)], 21, "2.13.0", answers=(1,))


@pytest.mark.parametrize("flag", FLAGS)
def test_a_flagged_release_makes_an_upgrade_to_the_newest(flag: Flag) -> None:
    one = release("2.13.0", 20, flag)
    check([OLD, one], [PIN], 21, "2.13.0", codes=[f"{flag}-release"])
    check([OLD, one, release("2.13.1", 22)], [PIN], 23, "2.13.1")
    check([release("2.12.0", -10, flag)], [PIN], 1, "none")
    check([OLD, one], [PIN, WINDOW], 22, "wait", codes=[f"{flag}-release", "campaign"])


@pytest.mark.parametrize("reason", [*WISHES, *BUGS])
def test_a_request_makes_an_upgrade(reason: Reason) -> None:
    said = f"request 1 ({reason}), reported on 2026-09-22"
    events = [PIN, asked(1, reason, 21)]
    check(BOTH, events, 21, "2.13.0", said, answers=(1,), pending=(), codes=[reason])
    if reason in WISHES:
        check([OLD], [PIN, asked(1, reason, 5)], 6, "wait", pending=(1,), codes=[reason, "no-release"])
        held = {"pending": (1,), "campaign": "cards", "wait_until": on(60), "codes": [reason, "campaign"]}
        nothing = "campaign `cards` is active: only bugs and regressions change the pin"
        check(BOTH, [PIN, WINDOW, asked(1, reason, 21)], 22, "wait", nothing, **held)
        events = [PIN, asked(1, reason, 22, "9.9")]
        no_record = "request 1 is for `9.9`, which the ledger has no record of"
        check(BOTH, events, 23, "wait", no_record, codes=[reason, "no-such-release"])
        check([*BOTH, release("9.9", 30)], events, 31, "9.9")
    else:
        for more in ([], [WINDOW]):
            events = [PIN, *more, asked(1, reason, 21, mend=MEND)]
            mend = f"`2.12.0` is rebuilt with the fix `{MEND}`"
            check([OLD], events, 22, "2.12.0 rebuild", mend, answers=(1,), image_changed=True)
            check(BOTH, [PIN, *more, asked(1, reason, 21)], 22, "2.13.0", answers=(1,))


def test_bugs_are_built_or_lead_to_the_newest_of_what_they_want() -> None:
    unnamed = "a fix that is still to be named"
    check([OLD], [PIN, asked(1, "bug", 5)], 6, "2.12.0 rebuild", unnamed, answers=(1,))
    events: Events = [
        PIN,
        asked(1, "bug", 5, mend=MEND),
        asked(2, "regression", 5, mend="f" * 12),
        asked(3, "bug", 5),
    ]
    target = {"version": "2.12.0", "sha": "f" * 12, "rebuild": True}
    check([OLD], events, 6, "2.12.0 rebuild", target=target, answers=(1, 2, 3), supersedes=())
    events = [PIN, asked(1, "bug", 21), asked(2, "performance", 21)]
    check(BOTH, events, 21, "2.13.0", answers=(1, 2), supersedes=())
    bugs = [asked(1, "bug", 21, "2.12.1"), asked(2, "bug", 21)]
    for order in (bugs, bugs[::-1]):
        check([OLD, release("2.12.1", 10), NEW], [PIN, *order], 21, "2.13.0", answers=(1, 2))
    fixed = asked(2, "bug", 21, "2.12.0", mend=MEND)
    check(BOTH, [PIN, asked(1, "bug", 21), fixed], 21, "2.13.0")
    check(BOTH, [PIN, fixed], 21, "2.12.0 rebuild")
    check([OLD], [PIN, asked(1, "bug", 22, "2.12.0")], 23, "2.12.0 rebuild", answers=(1,))
    unknown = "request 1 is for `9.9`, which the ledger has no record of"
    check(BOTH, [PIN, asked(1, "bug", 22, "9.9")], 23, "2.13.0", unknown, answers=(1,))


def test_a_request_gets_the_release_it_names_and_replaces_earlier_ones() -> None:
    records = [*BOTH, release("2.14.0", 21)]
    said = "request 1 (performance) asks for `2.13`, reported on 2026-09-27"
    check(records, [PIN, asked(1, "performance", 26, "2.13")], 26, "2.13.0", said)
    events = [
        PIN,
        asked(1, "major", 22, "2.14.0"),
        asked(2, "major", 22),
        asked(3, "performance", 22, "2.13.0"),
    ]
    check(records, events, 22, "2.13.0", answers=(3,), supersedes=(1, 2))
    check(records, [*events, as_event(decided(records, events, 22), on(22))], 22, "none")
    events = [PIN, asked(1, "performance", 21), asked(2, "major", 22, "9.9")]
    check(BOTH, events, 23, "2.13.0", answers=(1,), supersedes=(), pending=(2,))
    check(BOTH, [PIN, asked(1, "bug", 21), withdrawn(1, 22), withdrawn(7, 22)], 23, "none")
    twice = [PIN, asked(1, "bug", 21), asked(1, "bug", 22)]
    check(BOTH, twice, 22, "2.13.0", answers=(1,))
    check(BOTH, [*twice[:2], pinned("2.13.0", 22, answers=(1,)), twice[2]], 23, "none")
    with pytest.raises(BadFileError, match="two requests have the id 1") as caught:
        decided(BOTH, [PIN, asked(1, "bug", 21), asked(1, "major", 21)], 22)
    assert (caught.value.remedy, caught.value.exit_code) == ("give the later one an id of its own", 2)


def test_a_request_for_what_is_pinned_or_older_waits_and_is_answered_with_the_next() -> None:
    at = pinned("2.13.0", 20)
    for version in ("2.13.0", "2.12.0"):
        events: list[Event] = [at, asked(1, "major", 22, version)]
        said = f"request 1 is for `{version}`, but `2.13.0` is already pinned: withdraw it"
        check(BOTH, events, 23, "wait", said, codes=["major", "already-pinned"])
        check(BOTH, [*events, withdrawn(1, 24)], 25, "none")
        check([*BOTH, release("2.14.0", 30, "major")], events, 31, "2.14.0", answers=(1,))
    events = [at, asked(1, "major", 31), asked(2, "major", 31, "2.13.0")]
    check([*BOTH, release("2.14.0", 30)], events, 31, "2.14.0", answers=(1, 2), supersedes=())


def test_a_step_back_ends_wishes_and_nothing_but_its_name_leads_there_again() -> None:
    events: list[Event] = [
        PIN,
        pinned("2.13.0", 20),
        asked(1, "performance", 21),
        asked(2, "regression", 22, "2.12.0"),
    ]
    said = "request 1 is superseded by this downgrade"
    check([OLD, release("2.13.0", 20, "major")], events, 22, "2.12.0", said, answers=(2,), supersedes=(1,))
    back = [
        PIN,
        pinned("2.13.0", 20),
        asked(1, "regression", 22, "2.12.0"),
        pinned("2.12.0", 22, answers=(1,)),
    ]
    check([OLD, release("2.13.0", 20, "major")], back, 22, "none")
    passed = "except `2.13.0`, which was reverted: a newer release, or a request"
    check(BOTH, back, 78, "wait", passed, codes=["cycle", "no-release"])
    check([*BOTH, release("2.13.1", 70)], back, 78, "2.13.1")
    check(BOTH, [*back, asked(2, "performance", 30)], 30, "wait")
    check(BOTH, [*back, asked(2, "bug", 30)], 30, "2.12.0 rebuild")
    check(BOTH, [*back, asked(2, "performance", 30, "2.13.0")], 30, "2.13.0")
    check(BOTH, [*back, pinned("2.13.0", 30), asked(3, "regression", 31, "2.12.0")], 31, "2.12.0")


def test_a_build_with_a_mend_is_no_newer_release_and_keeps_its_mend() -> None:
    built = [PIN, pinned("2.12.0", 5, mend=MEND, answers=(1,))]
    other = {"version": "2.12.0", "sha": "f" * 40, "rebuild": True}
    check([OLD], [*built, asked(2, "bug", 6, "2.12.0", mend="f" * 40)], 6, "2.12.0 rebuild", target=other)
    check([OLD], [*built, asked(2, "bug", 6, "2.12.0")], 6, "2.12.0 rebuild")
    events = [*built, asked(2, "major", 6), asked(3, "regression", 6, mend=OLD.sha)]
    before = {"version": "2.12.0", "sha": OLD.sha, "rebuild": False}
    check([OLD], events, 6, "2.12.0", target=before, answers=(3,), pending=(2,))
    check([OLD, release("2.12.0", 6, "major", build=1)], built, 10, "none")


def test_what_is_said_of_a_release_later_counts() -> None:
    back = taken_back(30, NEW)
    check([OLD, NEW.model_copy(update={"yanked": ""})], [PIN], 56, "wait")
    check(BOTH, [PIN, back], 56, "wait")
    check(BOTH, [PIN, back, flagged(31, NEW)], 40, "none")
    check(BOTH, [PIN, back, asked(1, "bug", 31)], 31, "2.12.0 rebuild")
    check(BOTH, [back], 31, "2.12.0")
    check(BOTH, [PIN, back, taken_back(40, NEW, None)], 56, "2.13.0")
    said = "request 1 is for `2.13.0`, which was withdrawn: a request has to give its SHA"
    check(BOTH, [PIN, back, asked(1, "major", 31, "2.13.0")], 31, "wait", said)
    check(BOTH, [PIN, back, asked(1, "major", 31, mend=NEW.sha)], 31, "2.13.0")
    again = release("2.13.0", 10, build=1)
    target = {"version": "2.13.0", "sha": again.sha, "rebuild": False}
    check([*BOTH, again], [PIN, back, asked(1, "major", 31, "2.13.0")], 31, "2.13.0", target=target)
    assert fold(BOTH, [scheduled("2.13.0", 60), back], now=on(31)).coming == []
    events: list[Event] = [PIN, taken_back(30, OLD, "`x` @all")]
    said = (
        "`2.12.0`, which is pinned, was withdrawn (`'x' @all`): if that is a bug for you, request an upgrade"
    )
    check([OLD], events, 31, "none", said, codes=["not-due", "taken-back"])
    check(
        [OLD],
        [*events, asked(1, "major", 31, "2.12.0")],
        31,
        "wait",
        codes=["major", "already-pinned", "taken-back"],
    )
    check(BOTH, [PIN, flagged(30, NEW)], 30, "2.13.0", codes=["major-release"])
    check([OLD], [PIN, flagged(30, NEW)], 30, "none")
    # A flag that is told after a campaign was not held by it.
    events = [pinned("2.12.0", 10), WINDOW, scheduled("2.14.0", 62)]
    check(BOTH, [*events, flagged(61, NEW)], 61, "2.13.0")
    check(BOTH, [*events, flagged(50, NEW)], 61, "wait")


@pytest.mark.parametrize(
    ("newest", "coming", "wanted"),
    [
        (50, 69, "wait"), (50, 70, "2.13.0"), (50, 71, "2.13.0"),
        (50, None, "2.13.0"),
        (30, 74, "wait"), (30, 75, "2.13.0"), (59, 60, "wait"), (60, 60, "2.13.0"),
        (30, 59, "2.13.0"),
    ],
)  # fmt: skip
def test_the_closer_of_two_dates(newest: float, coming: float | None, wanted: str) -> None:
    events: Events = [PIN, WINDOW, asked(1, "major", 21), scheduled("2.14.0", coming)]
    check([OLD, release("2.13.0", newest)], events, 60, wanted)


def test_after_a_campaign_a_scheduled_release_is_waited_for_and_no_longer_than_said() -> None:
    held: list[Event] = [PIN, WINDOW, asked(1, "major", 21)]
    newest = [OLD, release("2.13.0", 30)]
    said = (
        "`2.14.0` is scheduled for 2026-11-10, closer to the campaign's end on 2026-10-31 than `2.13.0` of "
        "2026-10-01: the upgrade waits for it until 2026-11-24 00:00 UTC"
    )
    events = [*held, scheduled("2.14.0", 70)]
    check(newest, events, 60, "wait", said, wait_until=on(84), pending=(1,))
    check(newest, events, 83.99, "wait")
    not_there = "`2.14.0` was due on 2026-11-10 but was not released: it is no longer waited for"
    check(newest, events, 84, "2.13.0", not_there, answers=(1,))
    check([*BOTH, release("2.14.0", 68)], events, 68, "2.14.0")
    for called_off in (scheduled("2.14", None, told=62), scheduled("2.14.0", 99, told=62)):
        check(BOTH, [*events, called_off], 62, "2.13.0")
    check(BOTH, [*held, scheduled("2.15.0", 72), scheduled("2.14.0", 65)], 60, "wait", wait_until=on(79))
    bug = [*held, scheduled("2.14.0", 62), asked(2, "bug", 60)]
    check(BOTH, bug, 61, "2.13.0", answers=(1, 2))
    old_line = [*held, scheduled("2.12.9", 62)]
    check(BOTH, old_line, 60, "2.13.0")
    check(BOTH, [*old_line, scheduled("2.14.0", 65)], 60, "wait", wait_until=on(79))
    none = decided(BOTH, [*held, scheduled("2.14.0", 61)], 60, Pins(closer_days=0))
    assert went(none) == "2.13.0"


def test_what_no_campaign_held_waits_for_no_scheduled_release() -> None:
    check(BOTH, [PIN, scheduled("2.14.0", 62), asked(1, "major", 60)], 61, "2.13.0")
    events: list[Event] = [PIN, campaign("cards", 20, 30), scheduled("2.14.0", 40), asked(1, "major", 31)]
    check(BOTH, events, 32, "2.13.0")
    check(BOTH, [PIN, campaign("cards", 20, 50), scheduled("2.14.0", 55)], 56, "2.13.0", codes=["cycle"])
    events = [PIN, WINDOW, asked(1, "major", 21), pinned("2.13.0", 60, answers=(1,)), scheduled("2.14.0", 63)]
    records = [*BOTH, release("2.13.1", 61, "major")]
    check(records, events, 61, "2.13.1", codes=["major-release"])
    events = [PIN, WINDOW, asked(1, "major", 5), ended("cards", 10), scheduled("2.14.0", 12)]
    check(BOTH, events, 11, "2.13.0", codes=["major"])


def test_a_campaign_holds_all_but_bugs() -> None:
    check(BOTH, [PIN, WINDOW], 57, "wait", codes=["cycle", "campaign"])
    check(BOTH, [PIN, WINDOW], 60, "2.13.0")
    check(BOTH, [WINDOW], 22, "wait")
    check(BOTH, [PIN, WINDOW], 22, "none", campaign="cards")
    records = [OLD, release("2.12.1", 10), NEW]
    events: list[Event] = [PIN, WINDOW, asked(1, "performance", 21, "2.13.0"), asked(2, "bug", 22, "2.12.1")]
    check(records, events, 23, "2.12.1", answers=(2,), pending=(1,))
    events.append(as_event(decided(records, events, 23), on(23)))
    check(records, events, 23, "wait")
    check(records, events, 60, "2.13.0")
    wish: list[Event] = [PIN, WINDOW, asked(1, "performance", 21)]
    check(BOTH, [*wish, asked(2, "bug", 22)], 23, "2.13.0", answers=(1, 2))
    check([OLD], [*wish, asked(2, "bug", 22, mend=MEND)], 23, "2.12.0 rebuild", answers=(2,), pending=(1,))


def test_after_a_campaign_one_upgrade_answers_the_last_request() -> None:
    records = [*BOTH, release("2.14.0", 40)]
    events: list[Event] = [
        PIN, WINDOW, asked(1, "performance", 21, "2.13.0"), asked(2, "major", 30),
        asked(3, "performance", 35),
    ]  # fmt: skip
    said = "the campaign ended on 2026-10-31: one upgrade, to the newest release"
    check(records, events, 60, "2.14.0", said, answers=(3,), supersedes=(1, 2))
    check(records, events, 60, "2.14.0", "requests 1 and 2 are superseded by request 3")
    check(records, [*events, as_event(decided(records, events, 60), on(60))], 60, "none")
    check(records, [PIN, WINDOW, asked(1, "major", 21, "2.13.0")], 60, "2.14.0")
    events = [PIN, WINDOW, asked(1, "major", 21), asked(2, "performance", 22), withdrawn(2, 23)]
    check(BOTH, events, 60, "2.13.0", answers=(1,), supersedes=(), pending=())


def test_when_campaigns_begin_and_end() -> None:
    request = asked(1, "major", 21)
    for day, wanted in ((19.99, "2.13.0"), (20, "wait"), (59.99, "wait"), (60, "2.13.0")):
        check(BOTH, [PIN, WINDOW, asked(1, "major", 1)], day, wanted)
    events: list[Event] = [PIN, campaign("cards", 20, None), request]
    check(BOTH, events, 500, "wait", wait_until=None)
    check(BOTH, [*events, ended("cards", 500)], 500, "2.13.0")
    check(BOTH, [PIN, WINDOW, request, ended("cards", 30)], 30, "2.13.0")
    check(BOTH, [PIN, ended("other", 3)], 4, "none")
    # Nothing was decided since its planned end; the days count from when it really ended.
    late = [PIN, WINDOW, request, scheduled("2.14.0", 70), ended("cards", 66)]
    check(BOTH, late, 66, "wait", "closer to the campaign's end on 2026-11-06", wait_until=on(84))
    moved = [PIN, WINDOW, request, campaign("cards", 20, 80, told=59)]
    check(BOTH, moved, 70, "wait")
    check(BOTH, moved, 80, "2.13.0")
    two = [PIN, campaign("a", 20, 40), campaign("b", 30, 50), request]
    check(BOTH, two, 35, "wait", "campaigns `a` and `b` are active", campaign="a", wait_until=on(50))
    check(BOTH, two, 45, "wait", campaign="b")
    check(BOTH, [*two, scheduled("2.14.0", 55)], 50, "wait", wait_until=on(69))
    check(BOTH, [PIN, campaign("a", 20, 40), campaign("b", 30, None), request], 35, "wait", wait_until=None)


def test_a_clock_that_goes_wrong_repeats_nothing_and_loses_nothing() -> None:
    events: list[Event] = [PIN, asked(1, "bug", 57), pinned("2.13.0", 60, answers=(1,))]
    said = "the last upgrade, from which the cycle counts, was at 2026-10-31 00:00 UTC: check"
    check(BOTH, events, 10, "none", said, next_due=on(116), codes=["not-due", "clock"])
    events = [PIN, asked(1, "bug", 57), asked(2, "major", 58)]
    said = "it is 2026-09-11 00:00 UTC on this machine, but the ledger has an event of 2026-10-29"
    check(BOTH, events, 10, "2.13.0", said, answers=(1, 2))
    check(BOTH, [*events, as_event(decided(BOTH, events, 10), on(10))], 10, "none")
    early = [PIN, asked(1, "bug", 57), pinned("2.13.0", -300, answers=(1,))]
    check([*BOTH, release("2.14.0", 58)], early, 59, "none", next_due=on(57 + 56))
    events = [PIN, as_event(decided(BOTH, [PIN], 4000), on(4000))]
    check(BOTH, events, 4000, "none")
    check(BOTH, events, 60, "none", codes=["not-due", "clock"])
    check(BOTH, [PIN, campaign("cards", 20, None, told=20), asked(1, "major", 21)], 10, "wait")
    check(BOTH, [PIN, WINDOW, asked(1, "major", 21), ended("cards", 50)], 40, "2.13.0")
    check(BOTH, [PIN, pinned("2.12.0", -300, build=7)], 10, "none", next_due=on(56))
    # Two branches of a ledger that are merged have their lines in any order.
    check(BOTH, [asked(2, "performance", 30, "9.9"), PIN], 57, "2.13.0", next_due=on(56))


def test_suites_are_deprecated_where_the_image_changes_and_until_another_is_pinned() -> None:
    suites = [Suite(name="tuning", needs=["torch<2.13"])]
    decision = decided(BOTH, [PIN], 56, suites=suites)
    assert [(one.suite, one.why) for one in decision.deprecates] == [
        ("tuning", ("needs `torch<2.13`, but the release has `2.13.0`",))
    ]
    assert as_event(decision, on(56)).deprecated == ("tuning",)
    same = NEW.model_copy(update={"sha": OLD.sha})
    decision = decided([OLD, same], [PIN], 56, suites=suites)
    assert (went(decision), decision.image_changed, decision.deprecates) == ("2.13.0", False, ())
    assert decision.reasons[-1].words == "the image is already pinned: nothing is deprecated"
    rebuild = decided([OLD], [PIN, asked(1, "bug", 1, mend=MEND)], 2, suites=[Suite(name="x", needs=["y"])])
    assert (rebuild.image_changed, rebuild.deprecates) == (True, ())
    first = pinned("2.13.0", 20).model_copy(update={"deprecated": ("a",)})
    unchanged = pinned("2.14.0", 32).model_copy(update={"image_changed": False})
    for then, lost in (
        (pinned("2.13.0", 30, mend="f" * 40), ("a",)),
        (unchanged, ("a",)),
        (pinned("2.14.0", 32), ()),
    ):
        assert fold(BOTH, [PIN, first, then], now=on(40)).deprecated == lost


def test_what_is_decided_becomes_an_event() -> None:
    event = as_event(decided(BOTH, [PIN, asked(1, "major", 20), asked(2, "bug", 21)], 22), on(22))
    assert (event.before, event.version) == (f"2.12.0@{OLD.sha}", "2.13.0")
    assert (event.sha, event.answers, len(event.reasons)) == (NEW.sha, (1, 2), 2)
    with pytest.raises(ValueError, match="no upgrade"):
        as_event(decided(BOTH, [PIN], 1), on(1))


def test_what_others_have_named_is_no_markup() -> None:
    events: Events = [PIN, campaign("`x`\n# <b>\x1b[31m", 20, None), asked(1, "major", 21, "`*`")]
    check(BOTH, events, 22, "wait", "campaign `'x' # <b>` is active")
    check(BOTH, events, 22, "wait", "request 1 is for `'*'`, which")


def newest(records: list[Record], version: str, build: int = 0) -> str | None:
    pin = Pinned(version=version, sha=sha(version, build), since=on(0))
    found = Releases.of(records).newer(pin)
    return found[-1].version if found else None


@pytest.mark.parametrize(
    ("versions", "pin", "wanted"),
    [
        # A late mend of an old line, by day; words that are no versions; what stands behind a dash.
        (["2.12.0", "2.13.0", "2.12.1"], "2.12.0", "2.13.0"),
        (["2.12.0", "2.13.0", "2.12.1"], "2.13.0", None),
        (["nightly-b", "nightly-a"], "nightly-b", "nightly-a"),
        (["nightly-b", "nightly-a"], "nightly-a", None),
        (["nightly-b", "2.0", "nightly-a"], "nightly-a", "2.0"),
        (["2.10.0", "2.11.0", "2.9.0", "latest", "2.10.1"], "2.9.0", "2.11.0"),
        (["2.10.0", "2.11.0", "2.9.0", "latest", "2.10.1"], "2.11.0", None),
        (["2.10-ubi9", "2.13-ubi9", "2.9-ubi9"], "2.9-ubi9", "2.13-ubi9"),
        (["2.12.0", "2.13.0rc1", "2.13.0rc2"], "2.12.0", None),
        (["2.12.0", "2.13.0rc1", "2.13.0rc2"], "2.13.0rc1", "2.13.0rc2"),
        # Not recorded: it stands between the others.
        (["2.11.0", "2.13.0"], "2.12.0", "2.13.0"),
        (["2.11.0", "2.13.0"], "2.14.0", None),
        (["2.0"], "odd", "2.0"),
    ],
)
def test_the_newest_release_is_by_version(versions: list[str], pin: str, wanted: str | None) -> None:
    assert newest([release(one, day) for day, one in enumerate(versions)], pin) == wanted


def test_builds_and_words_have_their_place() -> None:
    builds = [release("2.12.0", 0), release("2.12.0", 10, build=1)]
    assert (newest(builds, "2.12.0"), newest(builds, "2.12.0", 1), newest(builds, "2.12.0", 9)) == (
        "2.12.0",
        None,
        None,
    )
    assert newest([*builds, release("2.13.0", 20)], "2.12.0", 9) == "2.13.0"
    assert newest([release("a", -1), release("b", 1)], "c") == "b"
    words = [release("2.11.0", 1), release("latest", 30, "major"), release("2.10.1", 40)]
    check(words, [], 50, "2.11.0")
    at = pinned("2.11.0", 1)
    check(words, [at, asked(1, "major", 41, "latest")], 41, "wait")
    check(words, [at, asked(1, "bug", 41, "latest")], 41, "latest")
    check(
        [*words[:2], release("2.12.0", 40, "major")],
        [pinned("latest", 30), pinned("2.11.0", 35)],
        41,
        "2.12.0",
    )
    previews = [release("2.13.0rc1", 10), release("2.13.0rc2", 11)]
    check(previews, [], 20, "2.13.0rc2")
    check([OLD, *previews], [], 20, "2.12.0")
    check([OLD, *previews], [PIN, asked(1, "major", 11, "2.13.0rc1")], 12, "2.13.0rc1")


def test_a_release_is_meant_by_version_or_sha_however_they_are_written() -> None:
    releases = Releases.of([OLD])
    for version, named_sha in (("2.12", ""), ("v2.12.0", OLD.sha), (None, OLD.sha[:12].upper())):
        assert releases.named(version, named_sha) == OLD
    assert releases.named("2.12.0", sha("2.12.0", 5)) is releases.named(None) is None
    assert same_version("2.13", "v2.13.0")
    assert same_version("nightly", "nightly")
    assert not any(
        same_version(*two) for two in (("nightly", "nightly-1"), ("2.13", "x"), ("2.13-ubi9", "2.13"))
    )
    assert same_sha(f"sha256:{OLD.sha}", OLD.sha[:12])
    assert not any(same_sha(*two) for two in ((OLD.sha, OLD.sha[:11]), (OLD.sha, ""), ("", "")))


@given(st.permutations([release("1.0", 3), release("1.1", 1), release("1.1", 2, build=1), release("2.0", 0)]))
def test_the_order_of_records_is_no_matter(records: list[Record]) -> None:
    assert Releases.of(records) == Releases.of(sorted(records, key=lambda one: one.sha))


@given(st.text())
def test_what_is_named_stays_in_its_backticks(text: str) -> None:
    assert named(text)[0] == named(text)[-1] == "`"
    assert not set(named(text)[1:-1]) & set("`\n\r")
    assert [listed("a"), listed("ab"), listed("abc"), listed("")] == ["a", "a and b", "a, b and c", ""]
