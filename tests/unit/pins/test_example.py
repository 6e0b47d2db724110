"""The fine-tuning image of the examples, played through a year: when it changes, to what, and why."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from ci.config import load_settings
from ci.config.pins_model import Pins
from ci.pins.events import Event, Requested
from ci.pins.place import read_version, with_version
from ci.pins.protocol import Decision, Policy, as_event, decide
from ci.pins.record import Record
from ci.pins.signatures import Signature, compare
from ci.pins.support import Unsupported, unsupported
from tests.pin_year import EVENTS, MENDED, MENDED_AGAIN, RELEASES, TRAIN, at

EXAMPLES = Path(__file__).parent.parent.parent.parent / "examples"


def pins() -> Pins:
    settings = load_settings(path=EXAMPLES / "pins-fine-tuning.yaml", environ={}, flags={}, cwd=EXAMPLES)
    return settings.model.pins


def breaks(before: Signature, after: Signature) -> list[str]:
    return [one.text for one in compare(before, after) if one.breaks]


def lived(*more: Event) -> list[Decision]:
    """A decision every morning at six, each upgrade carried out at once."""
    settings = pins()
    policy = Policy(cycle_days=settings.cycle_days, closer_days=settings.closer_days)
    suites = settings.tracks["fine-tuning"].suites

    def supports(before: Record | None, after: Record) -> tuple[Unsupported, ...]:
        return unsupported(suites, before, after, breaks)

    told = sorted([*EVENTS, *more], key=lambda one: one.at)
    events: list[Event] = []
    decisions = []
    now = at("2026-01-05", 6)
    while now < at("2027-01-05"):
        while told and told[0].at <= now:
            events.append(told.pop(0))
        records = [one for one in RELEASES if one.at <= now]
        one = decide(policy, records, events, now=now, supports=supports)
        decisions.append(one)
        if one.action == "upgrade":
            events.append(as_event(one, now))
            # Asked again at once, there is nothing more to do.
            assert decide(policy, records, events, now=now, supports=supports).action != "upgrade"
        now += timedelta(days=1)
    return decisions


def upgrades(decisions: list[Decision]) -> list[tuple[str, str, list[str]]]:
    """On which day, to what, and by which reasons."""
    return [
        (f"{one.at:%Y-%m-%d}", one.target.version, [reason.code for reason in one.reasons])
        for one in decisions
        if one.action == "upgrade" and one.target is not None
    ]


def test_the_pin_of_the_example_is_a_release_and_the_one_place_holds_any_other() -> None:
    pin = pins().tracks["fine-tuning"].pin
    assert pin is not None
    file = EXAMPLES / pin.file
    content = file.read_bytes()
    assert read_version(file, content, pin.key) == RELEASES[0].version
    for one in RELEASES:
        changed = with_version(file, content, pin.key, one.version)
        assert changed == content.replace(b"3.1.0", one.version.encode())


@pytest.fixture(scope="module")
def year() -> dict[str, Decision]:
    return {f"{one.at:%Y-%m-%d}": one for one in lived()}


def test_in_a_year_it_changes_on_these_days_to_these_releases_for_these_reasons(
    year: dict[str, Decision],
) -> None:
    assert upgrades(list(year.values())) == [
        ("2026-01-05", "3.1.0", ["first"]),
        # 56 days later each; on the day before, nothing is due.
        ("2026-03-02", "3.2.0", ["cycle"]),
        ("2026-04-27", "3.3.0", ["cycle"]),
        # A bug needs no release, and the cycle counts from its upgrade.
        ("2026-05-06", "3.3.0", ["bug", "rebuild"]),
        ("2026-05-20", "3.4.0", ["performance-release"]),
        # In the middle of a campaign.
        ("2026-07-03", "3.4.0", ["regression", "rebuild", "campaign"]),
        ("2026-08-21", "3.6.0", ["performance", "campaign-ended", "superseded"]),
        ("2026-09-15", "4.0.0", ["major-release"]),
        ("2026-11-10", "4.1.0", ["cycle"]),
        ("2026-12-14", "4.2.0", ["performance", "campaign-ended"]),
    ]
    assert [year[day].action for day in ("2026-03-01", "2026-04-26", "2026-11-09")] == ["none"] * 3


def test_a_mend_is_a_build_of_the_same_version_with_the_commit_that_was_named(
    year: dict[str, Decision],
) -> None:
    mends = [year[day].target for day in ("2026-05-06", "2026-07-03")]
    assert [(one.version, one.sha, one.rebuild) for one in mends if one] == [
        ("3.3.0", MENDED, True),
        ("3.4.0", MENDED_AGAIN, True),
    ]
    assert [year[day].answers for day in ("2026-05-06", "2026-07-03")] == [(1,), (2,)]
    assert year["2026-07-03"].campaign == "summer window"


def test_three_wishes_wait_for_the_end_of_the_campaign_and_the_last_one_is_answered(
    year: dict[str, Decision],
) -> None:
    pending = {day: (one.action, one.pending) for day, one in year.items() if one.pending}
    # From the first of them to the release, every day; the fourth is of the winter.
    assert list(pending) == [day for day in year if "2026-07-10" <= day < "2026-08-21"] + [
        day for day in year if "2026-12-03" <= day < "2026-12-14"
    ]
    assert {action for action, _ in pending.values()} == {"wait"}
    assert pending["2026-07-19"][1] == (3,)
    assert pending["2026-08-02"][1] == (3, 4)
    assert pending["2026-08-11"][1] == (3, 4, 5)
    answered = year["2026-08-21"]
    assert (answered.answers, answered.supersedes, answered.pending) == ((5,), (3, 4), ())


def test_after_the_campaign_the_scheduled_release_is_closer_than_the_newest_and_is_waited_for(
    year: dict[str, Decision],
) -> None:
    # 3.5.0 is 35 days before the end, 3.6.0 was to come 7 days after it, then 9.
    first, moved = year["2026-08-12"], year["2026-08-17"]
    assert first.reasons[-1].words == (
        "`3.6.0` is scheduled for 2026-08-19, closer to the campaign's end on 2026-08-12 than `3.5.0` of "
        "2026-07-08: it is waited for until 2026-09-02 00:00 UTC"
    )
    assert (first.wait_until, moved.wait_until) == (at("2026-09-02"), at("2026-09-04"))
    # In winter 4.3.0 is to come 16 days after the end, and 14 is as long as the settings wait.
    assert [one.code for one in year["2026-12-14"].reasons] == ["performance", "campaign-ended"]


def test_suites_are_deprecated_by_name_and_with_what_they_miss(year: dict[str, Decision]) -> None:
    train = (
        f"`{TRAIN}`: `training is gone`",
        f"`{TRAIN}`: `callbacks is gone`",
        f"`{TRAIN}`: `settings is new and has no default`",
    )
    found = {
        one.target.version: {suite.suite: suite.why for suite in one.deprecates}
        for one in year.values()
        if one.target is not None and one.deprecates
    }
    assert found == {
        "4.0.0": {"lora-sweep": ("needs `transformers>=4.55,<5`, and it has `5.1.0`",)},
        "4.1.0": {
            "lora-sweep": ("needs `transformers>=4.55,<5`, and it has `5.2.0`", *train),
            "flash-attention-throughput": ("needs `flash-attn>=2.8`, which it does not have", *train),
        },
        "4.2.0": {"lora-sweep": ("needs `transformers>=4.55,<5`, and it has `5.3.0`",)},
    }


def test_a_call_that_breaks_is_told_also_where_what_is_pinned_was_built_anew() -> None:
    bug = Requested(at=at("2026-10-05"), id=7, reason="bug", text="a leak", sha="c" * 40)
    decisions = lived(bug)
    assert upgrades(decisions)[-2:] == [
        ("2026-10-05", "4.0.0", ["bug", "rebuild"]),
        # Due on the day on which the winter's campaign begins.
        ("2026-12-14", "4.2.0", ["cycle", "performance", "campaign-ended"]),
    ]
    (last,) = [one for one in decisions if one.at.date() == at("2026-12-14").date()]
    assert [one.suite for one in last.deprecates] == ["lora-sweep", "flash-attention-throughput"]
