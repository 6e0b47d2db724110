"""The lanes of the examples, played: two weeks of each, with the exact times at which runs begin."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from ci.config import load_settings
from ci.config.model import SettingsModel
from ci.lanes.command import command
from ci.lanes.order import Order
from tests.lane_play import End, Play

EXAMPLES = Path(__file__).parent.parent.parent.parent / "examples"
HOUR = 3600
NIGHTLY = {"stage-1-nightly": 2 * HOUR, "stage-3-daily": 5 * HOUR}
WEEKLY = {"weekly": 30 * HOUR}


def example(name: str) -> SettingsModel:
    return load_settings(path=EXAMPLES / name, environ={}, flags={}, cwd=EXAMPLES).model


def play_of(
    name: str, usual: Mapping[str, float], unusual: Mapping[tuple[str, str, int], End] | None = None
) -> Play:
    return Play(settings=example(name), usual=usual, unusual=unusual or {})


def moment(play: Play, text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=play.zone)


def two_weeks(play: Play) -> Play:
    """Played from a Monday on; in America clocks change on the first of November."""
    play.between(moment(play, "2026-10-26"), moment(play, "2026-11-09"))
    return play


def each_day(*clocks: str) -> list[str]:
    """These times of the fourteen days, as clocks on the wall have them."""
    first = datetime.fromisoformat("2026-10-26")
    days = [first + timedelta(days=number) for number in range(14)]
    return [f"{day:%Y-%m-%d} {clock}" for day in days for clock in clocks]


def test_stage_1_runs_every_night_and_stage_3_three_times_a_day_also_where_clocks_change() -> None:
    play = two_weeks(play_of("lanes-nightly.yaml", NIGHTLY))
    assert play.times("stage-1-nightly") == each_day("03:17")
    assert play.times("stage-3-daily") == each_day("06:00", "14:00", "22:00")
    assert play.skipped == []
    nights = [after - before for before, after in pairwise(play.seconds("stage-1-nightly"))]
    assert nights == [*[24 * HOUR] * 5, 25 * HOUR, *[24 * HOUR] * 7]


@pytest.mark.parametrize(
    ("stage", "nights", "days"), [(1, ["03:17"], []), (2, [], []), (3, [], ["06:00", "14:00", "22:00"])]
)
def test_with_in_stages_the_one_follows_the_other_as_the_roll_out_goes_on(
    stage: int, nights: list[str], days: list[str]
) -> None:
    settings = example("lanes-nightly.yaml")
    lanes = {
        name: lane.model_copy(update={"in_stages": [lane.run.pytorch and lane.run.pytorch.stage]})
        for name, lane in settings.lanes.items()
    }
    play = two_weeks(
        Play(settings=settings.model_copy(update={"lanes": lanes, "stage": stage}), usual=NIGHTLY)
    )
    assert play.times("stage-1-nightly") == each_day(*nights)
    assert play.times("stage-3-daily") == each_day(*days)


def test_a_run_that_takes_too_long_costs_its_lane_one_time_and_the_other_lane_none() -> None:
    long = {("stage-3-daily", "2026-10-28 06:00", 1): End(9 * HOUR)}
    play = two_weeks(play_of("lanes-nightly.yaml", NIGHTLY, long))
    assert play.times("stage-1-nightly") == each_day("03:17")
    times = each_day("06:00", "14:00", "22:00")
    times.remove("2026-10-28 14:00")
    assert play.times("stage-3-daily") == times
    assert [(one.lane, play.said(one.due), one.why) for one in play.skipped] == [
        ("stage-3-daily", "2026-10-28 14:00", "the run of 2026-10-28 06:00 EDT had not ended")
    ]


def test_a_night_without_an_answer_is_tried_again_after_waits_that_are_always_the_same() -> None:
    night = "2026-11-03 03:17"
    lost = {("stage-1-nightly", night, attempt): End(60, answered=False) for attempt in (1, 2, 3)}
    play = two_weeks(play_of("lanes-nightly.yaml", NIGHTLY, lost))
    tried = [play.said(at) for at, one in play.begun if play.said(one.due) == night]
    assert tried == [
        "2026-11-03 03:17",
        "2026-11-03 03:23:11",
        "2026-11-03 03:34:20",
        "2026-11-03 03:55:59",
    ]
    assert play.times("stage-3-daily") == each_day("06:00", "14:00", "22:00")
    others = [play.said(at) for at, one in play.begun if one.lane == "stage-1-nightly" and one.attempt == 1]
    assert others == each_day("03:17")


def test_a_time_that_nobody_was_there_for_is_begun_within_the_hour_and_else_skipped() -> None:
    play = play_of("lanes-nightly.yaml", NIGHTLY)
    play.between(moment(play, "2026-10-26"), moment(play, "2026-10-29 21:00"))
    play.between(moment(play, "2026-10-30 03:40"), moment(play, "2026-11-09"))
    times = each_day("03:17")
    times[times.index("2026-10-30 03:17")] = "2026-10-30 03:40"
    assert play.times("stage-1-nightly") == times
    times = each_day("06:00", "14:00", "22:00")
    times.remove("2026-10-29 22:00")
    assert play.times("stage-3-daily") == times
    assert [(one.lane, play.said(one.due), one.why) for one in play.skipped] == [
        (
            "stage-3-daily",
            "2026-10-29 22:00",
            "it was not begun within 3600 s: nobody was there, or there was no room",
        )
    ]


def test_the_weekly_lane_begins_again_six_to_eight_hours_after_each_end() -> None:
    play = two_weeks(play_of("lanes-weekly.yaml", WEEKLY))
    assert play.times("weekly") == [
        "2026-10-26 00:00",
        "2026-10-27 12:28:23",
        "2026-10-29 00:31:42",
        "2026-10-30 12:49:42",
        "2026-11-01 02:49:18",
        "2026-11-02 15:02:51",
        "2026-11-04 04:07:44",
        "2026-11-05 17:42:22",
        "2026-11-07 05:52:17",
        "2026-11-08 18:48:36",
    ]
    rests = [after - before - 30 * HOUR for before, after in pairwise(play.seconds("weekly"))]
    assert all(6 * HOUR <= rest <= 8 * HOUR for rest in rests)
    assert len(set(rests)) == len(rests)
    assert play.skipped == []


def test_the_weekly_lane_counts_from_the_end_of_its_last_try() -> None:
    first = "2026-10-26 00:00"
    lost = {("weekly", first, attempt): End(HOUR, answered=False) for attempt in (1, 2, 3)}
    play = two_weeks(play_of("lanes-weekly.yaml", WEEKLY, lost))
    assert play.times("weekly")[:4] == [
        "2026-10-26 00:00",
        "2026-10-26 01:31:19",
        "2026-10-26 03:31:19",
        "2026-10-26 12:09:03",
    ]
    assert [one.attempt for _, one in play.begun[:5]] == [1, 2, 3, 1, 1]
    last_end = play.begun[2][0] + HOUR
    assert 6 * HOUR <= play.begun[3][0] - last_end <= 8 * HOUR


@pytest.mark.parametrize(
    ("name", "lane", "words"),
    [
        ("lanes-nightly.yaml", "stage-1-nightly", ["--stage", "1", "--bucket", "nightly"]),
        ("lanes-nightly.yaml", "stage-3-daily", ["--stage", "3", "--bucket", "nightly"]),
        ("lanes-weekly.yaml", "weekly", ["--stage", "4", "--bucket", "weekly"]),
    ],
)
def test_a_lane_calls_the_session_that_people_call(
    tmp_path: Path, name: str, lane: str, words: list[str]
) -> None:
    order = Order(lane=lane, due=0, attempt=1, seed=0, folder=tmp_path)
    found = command(example(name).lanes[lane], order, toolkit=Path("noxfile.py"), base=EXAMPLES)
    assert found.words == ("nox", "-f", "noxfile.py", "-s", "pytorch", "--", *words)
