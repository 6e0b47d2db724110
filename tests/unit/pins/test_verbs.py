"""`spyre-ci pins status|request|withdraw|schedule|decide|campaign|adopt|checklist`, on a folder."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ci.core.errors import CommandError, MissingInputError, SettingsError, UsageError
from ci.pins.applying import hub_of
from ci.pins.events import CampaignEnded, CampaignStarted, Requested, Scheduled, Upgraded, Withdrawn
from tests.pins_desk import NOW, PIN, SETTINGS, Desk, new_desk

SOONER = "1 of 1 in a year came sooner after the one before, the last on 2026-11-13, 20 days after it"
OFTEN = "3 in the last 365 days, one in 15.0 days"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return new_desk(tmp_path, monkeypatch)


def test_a_request_is_noted_with_the_next_number_and_once(desk: Desk) -> None:
    words = ("request", "tuning", "regression", "--text", "it  is\nslow", "--sha", "sha256:" + "4f" * 32)
    assert "request 1 (regression) is noted" in desk.pins(*words)
    assert "request 1 is there already, told on 2026-11-23" in desk.pins(*words)
    assert "request 2 (bug)" in desk.pins("request", "tuning", "bug", "--text", "it is slow")
    assert desk.events() == [
        Requested(at=NOW, id=1, reason="regression", text="it is slow", sha="4f" * 32),
        Requested(at=NOW, id=2, reason="bug", text="it is slow"),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--text", " "), "--text: has 0 characters"),
        (("--text", "x" * 2001), "--text: has 2,001 characters"),
        (("--text", "caf\udce9"), "--text: is no UTF-8"),
        (("--text", "x", "--version", "2;rm"), "--version: '2;rm' is no version"),
        (("--text", "x", "--sha", "HEAD"), "--sha: 'head' is no SHA"),
    ],
)
def test_a_request_that_says_nothing_or_names_nothing_is_refused(
    desk: Desk, words: tuple[str, ...], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        desk.pins("request", "tuning", "bug", *words)
    assert str(caught.value).startswith(said)
    assert desk.events() == []


def test_a_reason_nobody_knows_is_a_usage_error(desk: Desk) -> None:
    with pytest.raises(UsageError, match="'wish' is no reason") as caught:
        desk.pins("request", "tuning", "wish", "--text", "x")
    assert caught.value.remedy == "give one of major, performance, bug, regression"


def test_a_track_nobody_knows_is_told_with_those_that_are(desk: Desk) -> None:
    for words in (("request", "none", "bug", "--text", "x"), ("status", "none"), ("decide", "none")):
        with pytest.raises(UsageError, match="there is no track 'none'") as caught:
            desk.pins(*words)
        assert caught.value.remedy == "known ones: other, tuning"


def test_a_request_is_taken_back_once(desk: Desk) -> None:
    desk.pins("request", "tuning", "performance", "--text", "x")
    assert "request 1 is withdrawn" in desk.pins("withdraw", "tuning", "1", "--text", "it was the driver")
    assert "request 1 is pending no more" in desk.pins("withdraw", "tuning", "1")
    assert desk.events()[1:] == [Withdrawn(at=NOW, id=1, text="it was the driver")]
    with pytest.raises(UsageError, match="tuning has no request 4"):
        desk.pins("withdraw", "tuning", "4")


def test_a_release_is_scheduled_moved_and_called_off(desk: Desk) -> None:
    assert "2.13 is to come on 2026-12-14" in desk.pins("schedule", "tuning", "2.13", "--on", "2026-12-14")
    assert "already" in desk.pins("schedule", "tuning", "2.13", "--on", "2026-12-14T00:00:00+00:00")
    desk.pins("schedule", "tuning", "2.13", "--on", "2026-12-20T10:00:00+01:00")
    assert "is to come no more" in desk.pins("schedule", "tuning", "2.13", "--off")
    days = [one.on for one in desk.events() if isinstance(one, Scheduled)]
    assert days == [datetime(2026, 12, 14, tzinfo=UTC), datetime(2026, 12, 20, 9, tzinfo=UTC), None]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("2.13",), "give exactly one of --on and --off"),
        (("2.13", "--off", "--on", "2026-12-14"), "give exactly one of --on and --off"),
        (("2.13", "--on", "soon"), "'soon' is no day"),
        (("2.13", "--on", "0001-01-01T00:00+05:00"), "is not within the years 1970 to 9000"),
        (("2.13", "--on", "1970-01-01T00:00+05:00"), "is not within the years 1970 to 9000"),
        (("2.13", "--off"), "2.13 is not scheduled"),
        (("a b", "--on", "2026-12-14"), "'a b' is no version"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(desk: Desk, words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        desk.pins("schedule", "tuning", *words)
    assert said in caught.value.what


def test_a_campaign_holds_every_track_and_ends_once(desk: Desk) -> None:
    assert desk.pins("campaign", "start", "autumn").splitlines() == [
        "tuning: campaign autumn is on, until it is ended",
        "other: campaign autumn is on, until it is ended",
    ]
    desk.now += timedelta(hours=3)
    assert "as was told" in desk.pins("campaign", "start", "autumn")
    assert "campaign autumn has ended; `spyre-ci pins decide tuning`" in desk.pins(
        "campaign", "end", "autumn"
    )
    assert "campaign autumn has ended already" in desk.pins("campaign", "end", "autumn")
    for track in ("tuning", "other"):
        assert desk.events(track) == [
            CampaignStarted(at=NOW, name="autumn", starts=NOW), CampaignEnded(at=desk.now, name="autumn"),
        ]  # fmt: skip
    with pytest.raises(UsageError, match="campaign 'autumn' has ended on 2026-11-23"):
        desk.pins("campaign", "start", "autumn")


def test_a_campaign_of_one_track_with_days_can_be_moved(desk: Desk) -> None:
    words = ("campaign", "start", "winter", "--track", "tuning", "--starts", "2026-12-01", "--ends")
    said = desk.pins(*words, "2026-12-05")
    assert said == ("tuning: campaign winter is on from 2026-12-01 00:00 UTC until 2026-12-05 00:00 UTC\n")
    assert "as was told" in desk.pins(*words, "2026-12-05")
    desk.pins(*words, "2026-12-08")
    assert len(desk.events()) == 2
    assert desk.events("other") == []
    assert desk.pins("campaign", "end", "winter").count("\n") == 1


def test_of_a_campaign_that_is_told_again_what_is_not_given_stays(desk: Desk) -> None:
    desk.pins("campaign", "start", "autumn", "--starts", "2026-12-01", "--ends", "2026-12-05")
    desk.pins("campaign", "start", "autumn", "--ends", "2026-12-08")
    assert "2026-12-08 00:00 UTC, as was told" in desk.pins("campaign", "start", "autumn")
    told = [one for one in desk.events() if isinstance(one, CampaignStarted)]
    assert [(f"{one.starts:%m-%d}", f"{one.ends:%m-%d}") for one in told] == [
        ("12-01", "12-05"), ("12-01", "12-08"),
    ]  # fmt: skip
    desk.now += timedelta(days=30)
    with pytest.raises(UsageError, match="2026-12-08 00:00 UTC is not after now"):
        desk.pins("campaign", "start", "autumn")


def test_a_campaign_that_one_track_refuses_is_told_to_none(desk: Desk) -> None:
    desk.pins("campaign", "start", "w", "--track", "other")
    desk.pins("campaign", "end", "w", "--track", "other")
    with pytest.raises(UsageError, match="has ended"):
        desk.pins("campaign", "start", "w")
    assert desk.events("tuning") == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("start", "w", "--ends", "2026-11-20"), "2026-11-20 00:00 UTC is not after now"),
        (("start", "w", "--starts", "2026-12-02", "--ends", "2026-12-02"), "is not after its start"),
        (("start", " "), "has 0 characters"),
        (("start", "caf\udce9"), "is no UTF-8"),
        (("start", "w", "--ends", "9999-12-31T23:59-05:00"), "is not within the years 1970 to 9000"),
        (("start", "w", "--ends", "never"), "'never' is no day"),
        (("end", "w"), "there is no campaign 'w' of other, tuning"),
        (("start", "w", "--track", "none"), "there is no track 'none'"),
    ],
)
def test_a_campaign_that_cannot_be_is_refused(desk: Desk, words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        desk.pins("campaign", *words)
    assert said in caught.value.what


def test_a_campaign_that_one_of_the_named_tracks_has_not_is_told(desk: Desk) -> None:
    desk.pins("campaign", "start", "w", "--track", "tuning")
    with pytest.raises(UsageError, match="there is no campaign 'w' of other") as caught:
        desk.pins("campaign", "end", "w", "--track", "tuning", "--track", "other")
    assert caught.value.remedy == "known: w"


def test_decide_says_the_action_and_why_and_ends_with_0_whatever_it_is(desk: Desk) -> None:
    desk.release("2.9", days_ago=90)
    desk.release("2.10")
    desk.upgraded(days_ago=55)
    assert "tuning: nothing to do\n  not-due: the next upgrade is due on 2026-11-24" in desk.pins(
        "decide", "tuning"
    )
    said = desk.pins("decide", "tuning", "--at", "2026-11-24T08:00")
    assert said.startswith("tuning: upgrade to 2.10 (210000000000)\n  cycle: ")
    assert "due" in desk.pins("decide", "tuning", "--at", "2026-11-24T08:00", "--check", code=1)
    assert "nothing" in desk.pins("decide", "tuning", "--check")


def test_of_a_day_that_is_past_decide_says_what_was_decided_then(desk: Desk) -> None:
    desk.release("2.9", days_ago=90)
    desk.upgraded(days_ago=70)
    desk.release("2.10", days_ago=10)
    desk.pins("request", "tuning", "bug", "--text", "it is wrong")
    assert "upgrade to 2.10" in desk.pins("decide", "tuning")
    day = f"{NOW - timedelta(days=12):%Y-%m-%d}"
    said = desk.pins("decide", "tuning", "--at", day)
    assert said.startswith("tuning: wait\n  cycle: the last upgrade is 57 days old")
    assert "bug" not in said
    assert "2.10" not in said


@pytest.mark.parametrize("at", ["9999-12-31T23:59-05:00", "9001-01-01", "1969-12-31"])
def test_a_day_that_the_protocol_cannot_count_with_is_refused(desk: Desk, at: str) -> None:
    with pytest.raises(UsageError, match="is not within the years 1970 to 9000") as caught:
        desk.pins("decide", "--at", at)
    assert (caught.value.where, caught.value.remedy) == ("--at", "check the year")
    assert "nothing to do" in desk.pins("decide", "tuning", "--at", "9000-12-31T23:59:59")


def test_decide_json_has_the_decision_of_each_track(desk: Desk) -> None:
    desk.release("2.10", sha="b" * 64)
    desk.upgraded(days_ago=3)
    desk.pins("request", "tuning", "bug", "--text", "x")
    content = json.loads(desk.pins("decide", "--json"))
    assert content["schema"] == "spyre-ci/pin-decisions/1"
    assert sorted(content["tracks"]) == ["other", "tuning"]
    found = content["tracks"]["tuning"]
    assert found["action"] == "upgrade"
    assert found["target"] == {"version": "2.10", "sha": "b" * 64, "rebuild": False}
    assert found["answers"] == [1]
    assert found["pending"] == []
    assert found["at"] == "2026-11-23T08:00:00Z"
    assert sorted(found) == [
        "action", "answers", "at", "before", "campaign", "deprecates", "image_changed", "next_due", "pending",
        "reasons", "supersedes", "target", "unclear", "wait_until",
    ]  # fmt: skip


def test_what_waits_for_a_campaign_says_until_when_and_what_stays_pending(desk: Desk) -> None:
    desk.release("2.10")
    desk.upgraded(days_ago=3)
    desk.pins("request", "tuning", "performance", "--text", "x")
    desk.pins("campaign", "start", "autumn", "--ends", "2026-12-01")
    said = desk.pins("decide", "tuning")
    assert said.startswith("tuning: wait, until 2026-12-01 00:00 UTC at the latest\n")
    assert "stays pending: request 1" in said


def test_an_upgrade_says_which_suites_it_deprecates(desk: Desk) -> None:
    desk.release("2.10", flags=("major",))
    (desk.folder / "spyre-ci.yaml").write_text(SETTINGS.replace("torch<3", "torch<2"))
    desk.upgraded(days_ago=3)
    assert "  deprecates nightly: needs `torch<2`, and it has `2.11`" in desk.pins("decide", "tuning")


def test_status_tells_the_pin_its_place_and_everything_that_is_open(desk: Desk) -> None:
    for version, days in (("2.8", 40), ("2.9", 20), ("2.10", 10)):
        desk.release(version, days_ago=days)
    desk.upgraded("2.8", days_ago=30)
    desk.upgraded("2.9", days_ago=10)
    desk.pins("request", "tuning", "performance", "--text", "::error:: it is slow")
    desk.pins("campaign", "start", "autumn", "--ends", "2026-12-01")
    desk.pins("schedule", "tuning", "2.13", "--on", "2026-12-14")
    assert desk.pins("status", "tuning").splitlines() == [
        "tuning: 2.9 since 2026-11-13; the next is due on 2027-01-08",
        f"  its place: 2.9 at variants.pinned.version in {desk.folder}/stack.yaml",
        "  releases: 3, the newest 2.10 of 2026-11-13",
        "  wait, until 2026-12-01 00:00 UTC at the latest",
        "  request 1 (performance): ::error:: it is slow",
        "  campaign autumn is on until 2026-12-01 00:00 UTC",
        "  2.13 is to come on 2026-12-14",
        f"  no more than one upgrade in 56 days: NO LONGER HOLDS: {SOONER}",
        f"  what is released changes no more than once in 56 days: NO LONGER HOLDS: {OFTEN}",
    ]


def test_status_says_where_the_place_and_the_events_are_not_one(desk: Desk) -> None:
    desk.upgraded("2.8")
    assert "NOTE: the last upgrade was to 2.8, and its place has 2.9" in desk.pins("status", "tuning")


def test_status_of_tracks_of_which_nothing_is_known(desk: Desk) -> None:
    lines = desk.pins("status").splitlines()
    assert lines[0] == "tuning: nothing was upgraded yet"
    assert "other: nothing was upgraded yet" in lines
    assert "  releases: 0" in lines


def test_status_json_has_the_same(desk: Desk) -> None:
    desk.release("2.10")
    desk.upgraded()
    desk.pins("campaign", "start", "autumn")
    desk.pins("schedule", "tuning", "2.13", "--on", "2026-12-14")
    desk.pins("request", "tuning", "performance", "--text", "x")
    content = json.loads(desk.pins("status", "--json"))
    assert content["schema"] == "spyre-ci/pin-status/1"
    assert content["tracks"]["other"]["pinned"] is None
    found = content["tracks"]["tuning"]
    assert found["pinned"]["version"] == "2.9"
    assert (found["place"], found["releases"], found["newest"]) == ("2.9", 1, "2.10")
    assert found["campaigns"] == [{"name": "autumn", "ends": None}]
    assert found["scheduled"] == [{"version": "2.13", "on": "2026-12-14T00:00:00+00:00"}]
    assert found["requests"][0]["reason"] == "performance"
    assert [one["holds"] for one in found["assumptions"]] == [None, None]
    assert found["decision"]["action"] == "wait"


def test_what_others_wrote_steers_neither_a_terminal_nor_a_ci(desk: Desk) -> None:
    desk.upgraded()
    desk.pins("request", "tuning", "bug", "--text", "\x1b[2J::error::x##[error]y")
    said = desk.pins("status", "tuning")
    assert "\x1b" not in said
    assert "##[" not in said


def test_a_place_that_is_not_there_or_holds_no_version_is_told(desk: Desk) -> None:
    (desk.folder / "stack.yaml").write_text(PIN.replace("version", "ver"))
    with pytest.raises(SettingsError, match="there is no such key"):
        desk.pins("status")
    (desk.folder / "stack.yaml").unlink()
    with pytest.raises(MissingInputError, match="there is no such file of a pin") as caught:
        desk.pins("status")
    assert caught.value.remedy == "check pins.tracks.tuning.pin.file"


def test_settings_without_tracks_are_told(desk: Desk) -> None:
    (desk.folder / "spyre-ci.yaml").write_text("stage: 1\n")
    with pytest.raises(UsageError, match="there are no tracks"):
        desk.pins("status")


def test_what_is_pinned_already_is_adopted_and_the_cycle_counts_from_its_day(desk: Desk) -> None:
    desk.release("2.9", days_ago=30)
    desk.release("2.10")
    assert desk.pins("adopt", "tuning", "--on", "2026-10-05") == "tuning: 2.9 is pinned since 2026-10-05\n"
    assert desk.events() == [
        Upgraded(
            at=datetime(2026, 10, 5, tzinfo=UTC), version="2.9", sha="29".ljust(64, "0"),
            reasons=("it was pinned before it was followed",),
        )
    ]  # fmt: skip
    assert "not-due: the next upgrade is due on 2026-11-30" in desk.pins("decide", "tuning")
    assert desk.pins("adopt", "tuning", "--on", "2026-10-05") == (
        "tuning: 2.9 is pinned since 2026-10-05 already\n"
    )
    assert len(desk.events()) == 1
    with pytest.raises(UsageError, match="since 2026-10-05 already"):
        desk.pins("adopt", "tuning", "--on", "2026-10-06")


def test_a_release_the_ledger_has_not_can_be_adopted_and_says_so(desk: Desk) -> None:
    said = desk.pins("adopt", "other", "--version", "2.5", "--on", "2026-10-05")
    assert said == "other: 2.5 is pinned since 2026-10-05; the ledger has no such release yet\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("other", "--on", "2026-10-05"), "the track has no place of a pin"),
        (("tuning", "--on", "2026-12-24"), "2026-12-24 is still to come"),
        (("tuning", "--on", "x"), "'x' is no day"),
        (("tuning", "--on", "2026-10-05", "--version", "a b"), "'a b' is no version"),
    ],
)
def test_what_cannot_be_adopted_is_refused(desk: Desk, words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        desk.pins("adopt", *words)
    assert said in caught.value.what


def test_the_checklist_is_printed_or_written(desk: Desk) -> None:
    desk.release("2.10")
    desk.upgraded()
    printed = desk.pins("checklist", "tuning")
    assert "- [ ] " in printed
    assert desk.pins("checklist", "tuning", "--out", str(desk.folder / "list.md")) == ""
    assert (desk.folder / "list.md").read_text().splitlines() == printed.splitlines()


def test_where_nothing_is_due_apply_says_why_and_needs_no_repository(desk: Desk) -> None:
    desk.release("2.10")
    desk.upgraded()
    assert desk.pins("apply", "tuning").startswith("tuning: nothing to do\n  not-due: ")
    content = json.loads(desk.pins("apply", "tuning", "--json"))
    assert (content["schema"], content["branch"], content["made"]) == ("spyre-ci/pin-change/1", None, None)


def test_a_cycle_that_is_over_was_due(desk: Desk) -> None:
    desk.upgraded(days_ago=60)
    assert "tuning: 2.9 since 2026-09-24; the next was due on 2026-11-19" in desk.pins("status", "tuning")


def test_a_pull_request_without_its_library_names_the_extra(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "github", None)
    for name in [name for name in sys.modules if name.startswith("ci.core.github.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setenv("GITHUB_REPOSITORY", "o/r")
    with pytest.raises(CommandError, match="a pull request wants a library") as caught:
        hub_of("", os.environ)
    assert caught.value.remedy == "install it: pip install 'spyre-ci[github]'"
    assert desk.pins("status")
