"""`spyre-ci pins status|record|request|campaign|decide|apply`, on a folder."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ci.core.errors import SettingsError, SpyreCiError
from ci.pins.events import CampaignEnded, CampaignStarted, Requested, Scheduled, Upgraded, Withdrawn
from tests.pins_desk import NOW, PIN, SETTINGS, Desk, new_desk, sha_of


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return new_desk(tmp_path, monkeypatch)


def test_a_request_is_noted_with_the_next_number_and_once_and_taken_back_once(desk: Desk) -> None:
    words = ("request", "tuning", "regression", "--text", "it  is\nslow", "--sha", "sha256:" + "4f" * 32)
    assert desk.pins(*words) == "tuning: request 1 (regression) is recorded\n"
    desk.now += timedelta(days=1)
    assert desk.pins(*words) == "tuning: request 1 (regression) is recorded, unchanged since 2026-11-23\n"
    assert "request 2 (bug)" in desk.pins("request", "tuning", "bug", "--text", "it is slow \udce9")
    back = ("request", "tuning", "--withdraw", "1", "--text", "it was the driver")
    assert desk.pins(*back) == "tuning: request 1 is withdrawn\n"
    desk.now += timedelta(days=1)
    assert desk.pins(*back) == "tuning: request 1 is withdrawn, unchanged since 2026-11-24\n"
    assert desk.events() == [
        Requested(at=NOW, id=1, reason="regression", text="it is slow", sha="4f" * 32),
        Requested(at=NOW + timedelta(days=1), id=2, reason="bug", text="it is slow \\udce9"),
        Withdrawn(at=NOW + timedelta(days=1), id=1, text="it was the driver"),
    ]
    desk.upgraded(answers=(2,))
    assert "request 2 is answered, unchanged since 2026-11-13" in desk.pins(
        "request", "tuning", "--withdraw", "2"
    )


def test_a_release_is_scheduled_moved_and_called_off(desk: Desk) -> None:
    due = ("record", "tuning", "--release", "2.13", "--due")
    assert desk.pins(*due, "2026-12-14") == "tuning: 2.13 is due on 2026-12-14\n"
    desk.now += timedelta(days=1)
    assert "unchanged since" in desk.pins(*due, "2026-12-14T00:00:00+00:00")
    desk.pins(*due, "2026-12-20T10:00:00+01:00")
    assert desk.pins(*due, "never") == "tuning: 2.13 is no longer planned\n"
    days = [one.on for one in desk.events() if isinstance(one, Scheduled)]
    assert days == [datetime(2026, 12, 14, tzinfo=UTC), datetime(2026, 12, 20, 9, tzinfo=UTC), None]


def test_what_is_pinned_already_is_noted_once_and_the_cycle_counts_from_its_day(desk: Desk) -> None:
    desk.release("2.9", days_ago=30)
    for _ in range(2):
        said = desk.pins("record", "tuning", "--pinned-since", "2026-10-05")
        assert said == "tuning: 2.9 has been pinned since 2026-10-05\n"
    why = ("it was pinned before the ledger began",)
    at = datetime(2026, 10, 5, tzinfo=UTC)
    assert desk.events() == [Upgraded(at=at, version="2.9", sha=sha_of("2.9"), reasons=why)]
    assert "not-due: the next upgrade is due on 2026-11-30" in desk.pins("decide", "tuning")
    said = desk.pins("record", "other", "--release", "2.5", "--pinned-since", "2026-10-05")
    assert said == "other: 2.5 has been pinned since 2026-10-05; the ledger has no record of it yet\n"
    with pytest.raises(SpyreCiError, match=r"the track has been at 2\.9 since 2026-10-05"):
        desk.pins("record", "tuning", "--pinned-since", "2026-10-06")


def test_a_campaign_holds_every_track_moves_and_ends_once(desk: Desk) -> None:
    assert desk.pins("campaign", "autumn").splitlines() == [
        "tuning: campaign autumn is active until it is ended with --over",
        "other: campaign autumn is active until it is ended with --over",
    ]
    desk.now += timedelta(hours=3)
    assert "unchanged since 2026-11-23" in desk.pins("campaign", "autumn")
    assert "tuning: campaign autumn has ended\n" in desk.pins("campaign", "autumn", "--over")
    ended = desk.now
    desk.now += timedelta(hours=3)
    assert "campaign autumn has ended, unchanged since 2026-11-23" in desk.pins(
        "campaign", "autumn", "--over"
    )
    for track in ("tuning", "other"):
        assert desk.events(track) == [
            CampaignStarted(at=NOW, name="autumn", starts=NOW), CampaignEnded(at=ended, name="autumn"),
        ]  # fmt: skip
    with pytest.raises(SpyreCiError, match="campaign 'autumn' ended on 2026-11-23"):
        desk.pins("campaign", "autumn")
    one = ("campaign", "winter", "--track", "tuning")
    desk.pins("campaign", "w", "--track", "other")
    desk.pins("campaign", "w", "--track", "other", "--over")
    with pytest.raises(SpyreCiError, match="campaign 'w' ended on"):
        desk.pins("campaign", "w")
    said = desk.pins(*one, "--starts", "2026-12-01", "--ends", "2026-12-05")
    assert said == "tuning: campaign winter is active from 2026-12-01 00:00 UTC until 2026-12-05 00:00 UTC\n"
    desk.pins(*one, "--ends", "2026-12-08")
    told = [one for one in desk.events() if isinstance(one, CampaignStarted)][1:]
    days = [(f"{one.starts:%m-%d}", f"{one.ends:%m-%d}") for one in told]
    assert days == [("12-01", "12-05"), ("12-01", "12-08")], "what is not given stays; one refusal is all"
    desk.now += timedelta(days=30)
    with pytest.raises(SpyreCiError, match="2026-12-08 00:00 UTC is not after now"):
        desk.pins(*one)


YEARS = "is not a day of the years 1970 to 9000"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("request tuning bug --text ", "a request needs a reason"),
        ("request tuning bug --text \x1b[31m", "a request needs a reason"),
        ("request tuning", "a request needs a reason"),
        ("request tuning bug --text x --version 2;rm", "--version: '2;rm' is not a version"),
        ("request tuning bug --text x --sha HEAD", "--sha: 'head' is not a SHA"),
        ("request tuning --withdraw 4", "there is no request 4"),
        ("request none bug --text x", "there is no track 'none' remedy: known: other, tuning"),
        ("status none", "there is no track 'none'"),
        ("decide none", "there is no track 'none'"),
        ("decide --at soon", f"--at: 'soon' {YEARS}"),
        ("decide --at 9999-12-31T23:59-05:00", YEARS),
        ("decide --at 9001-01-01", YEARS),
        ("decide --at 1970-01-01T00:00+05:00", YEARS),
        ("decide --at 0001-01-01T00:00+05:00", YEARS),
        ("campaign w --ends 2026-11-20", "2026-11-20 00:00 UTC is not after now"),
        ("campaign w --starts 2026-12-02 --ends 2026-12-02", "is not after its start"),
        ("campaign ", "NAME: has 0 characters"),
        ("campaign w --ends never", f"--ends: 'never' {YEARS}"),
        ("campaign w --over", "there is no campaign 'w' remedy: known: none"),
        ("campaign w --track none", "there is no track 'none'"),
        ("record --release 1.0", "--release: applies to one track"),
        ("record tuning other --due never", "--release: applies to one track"),
        ("record tuning --flag major", "--flag: a flag applies to one release"),
        ("record tuning --due never", "no release is given"),
        ("record tuning --release 2.13 --due soon", f"--due: 'soon' {YEARS}"),
        ("record tuning --release a;b --due never", "'a;b' is not a version"),
        ("record other --pinned-since 2026-10-05", "no release is given"),
        ("record tuning --pinned-since 2026-12-24", "2026-12-24 is in the future"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_noted(desk: Desk, words: str, said: str) -> None:
    desk.pins(*words.split(" "), code=2)
    assert said in desk.err
    assert desk.events() == desk.events("other") == []


@pytest.mark.parametrize("words", ["request tuning wish --text x", "record tuning --release 1 --flag bug"])
def test_a_word_that_is_none_of_those_there_are_is_told_with_them(desk: Desk, words: str) -> None:
    desk.pins(*words.split(" "), code=2)
    assert "'major'" in desk.err


def test_decide_says_the_action_and_why_also_for_a_day_that_is_past(desk: Desk) -> None:
    desk.release("2.9", days_ago=90)
    desk.release("2.10")
    desk.upgraded(days_ago=55)
    assert "tuning: nothing to do\n  not-due: the next upgrade is due on 2026-11-24" in desk.pins(
        "decide", "tuning"
    )
    said = desk.pins("decide", "tuning", "--at", "2026-11-24T08:00")
    assert said.startswith("tuning: upgrade to 2.10 (210000000000)\n  cycle: ")
    desk.pins("decide", "tuning", "--at", "2026-11-24T08:00", "--check", code=1)
    desk.pins("decide", "tuning", "--check")
    desk.pins("request", "tuning", "bug", "--text", "it is wrong")
    assert "upgrade to 2.10" in desk.pins("decide", "tuning")
    past = desk.pins("decide", "tuning", "--at", f"{NOW - timedelta(days=12):%Y-%m-%d}")
    assert past.startswith("tuning: nothing to do\n  not-due: ")
    assert "nothing to do" in desk.pins("decide", "other", "--at", "9000-12-31T23:59:59")


def test_decide_json_has_the_decision_of_each_track_and_checklist_its_markdown(desk: Desk) -> None:
    desk.release("2.10", flags=("major",))
    (desk.folder / "spyre-ci.yaml").write_text(SETTINGS.replace("torch<3", "torch<2"))
    desk.upgraded(days_ago=3)
    desk.pins("request", "tuning", "bug", "--text", "x")
    said = desk.pins("decide", "tuning")
    assert "  answers: request 1\n  deprecates nightly: needs `torch<2`, but the release has `2.11`" in said
    content = json.loads(desk.pins("decide", "--json"))
    assert (content["schema"], sorted(content["tracks"])) == ("spyre-ci/pin-decisions/1", ["other", "tuning"])
    found = content["tracks"]["tuning"]
    assert (found["action"], found["answers"], found["pending"]) == ("upgrade", [1], [])
    assert found["target"] == {"version": "2.10", "sha": sha_of("2.10"), "rebuild": False}
    assert found["at"] == "2026-11-23T08:00:00Z"
    assert "- [ ] Does `2.10` contain the fix of request 1?\n" in desk.pins("decide", "tuning", "--checklist")


def test_status_tells_the_pin_its_place_and_everything_that_is_open(desk: Desk) -> None:
    desk.release("2.10")
    desk.upgraded("2.8", days_ago=30, deprecated=("nightly", "weekly"))
    desk.pins("request", "tuning", "performance", "--text", "::error:: it is \x1b[2Jslow ##[error]y")
    desk.pins("campaign", "autumn", "--ends", "2026-12-01")
    desk.pins("record", "tuning", "--release", "2.13", "--due", "2026-12-14")
    said = desk.pins("status", "tuning")
    note = "an upgrade was not merged, or the pin was changed by hand"
    assert said.splitlines() == [
        "tuning: 2.8 since 2026-10-24; the next is due on 2026-12-19",
        f"  in the checkout: 2.9 at variants.pinned.version in {desk.folder}/stack.yaml",
        f"  NOTE: the last upgrade was to 2.8, but the checkout has 2.9: {note}",
        "  deprecated: nightly, weekly",
        "  releases: 1, the newest 2.10 (210000000000)",
        "  wait, until 2026-12-01 00:00 UTC at the latest",
        "  performance: request 1 (performance), reported on 2026-11-23",
        "  campaign: campaign `autumn` is active: only bugs and regressions change the pin",
        "  stays pending: request 1",
        "  request 1 (performance): ::error:: it is slow # #[error]y",
        "  2.13 is due on 2026-12-14",
    ]
    found = json.loads(desk.pins("status", "--json"))["tracks"]
    assert found["other"]["pinned"] is None
    assert (found["tuning"]["pinned"]["version"], found["tuning"]["place"]) == ("2.8", "2.9")
    assert found["tuning"]["campaigns"] == [{"name": "autumn", "ends": "2026-12-01T00:00:00Z"}]
    assert found["tuning"]["scheduled"] == [{"version": "2.13", "on": "2026-12-14T00:00:00Z"}]
    assert found["tuning"]["requests"][0]["reason"] == "performance"
    desk.now += timedelta(days=60)
    assert "the next was due on 2026-12-19" in desk.pins("status", "tuning")
    assert "other: nothing was upgraded yet\n  releases: 0\n" in desk.pins("status")


def test_a_place_that_is_not_there_or_holds_no_version_is_told(desk: Desk) -> None:
    (desk.folder / "stack.yaml").write_text(PIN.replace("version", "ver"))
    desk.pins("status", code=2)
    assert "there is no such key" in desk.err
    (desk.folder / "stack.yaml").unlink()
    desk.pins("status", code=2)
    assert "the file of the pin does not exist" in desk.err
    assert "check pins.tracks.tuning.pin.file" in desk.err
    (desk.folder / "spyre-ci.yaml").write_text("stage: 1\n")
    desk.pins("status", code=2)
    assert "there are no tracks remedy: set one, with `image` or `package`" in desk.err


def test_where_nothing_is_due_apply_says_why_and_needs_no_repository(desk: Desk) -> None:
    desk.release("2.10")
    desk.upgraded()
    assert desk.pins("apply", "tuning").startswith("tuning: nothing to do\n  not-due: ")
    content = json.loads(desk.pins("apply", "tuning", "--json"))
    assert (content["schema"], content["sent"]) == ("spyre-ci/pin-change/1", None)


def test_settings_that_cannot_be_are_told(desk: Desk) -> None:
    index = "pins: {tracks: {a: {package: x, index: 'http://example.com/simple', direct: [x]}}}"
    (desk.folder / "spyre-ci.yaml").write_text(index)
    with pytest.raises(SettingsError, match="must be https"):
        desk.pins("record")
    (desk.folder / "spyre-ci.yaml").write_text(
        "pins: {tracks: {a: {package: x, tags: '*-ubi9', direct: [x]}}}"
    )
    with pytest.raises(SettingsError, match="tags are of an image; a package has none"):
        desk.pins("status")


@pytest.mark.parametrize("words", ["record tuning", "decide tuning"])
def test_a_library_that_is_not_installed_is_told_with_its_extra(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    for version in ("2.9", "2.10"):
        desk.release(version, signatures={"a:f": ()})
    (desk.folder / "spyre-ci.yaml").write_text(SETTINGS.replace('needs: ["torch<3"]', 'calls: ["a:f"]'))
    desk.upgraded(days_ago=80)
    monkeypatch.setitem(sys.modules, "griffe", None)
    desk.pins(*words.split(), code=2)
    assert "a library that is not installed" in desk.err
    assert "pip install 'spyre-ci[pins]'" in desk.err
