"""What runs next, when and why: the words of `lanes next` for every way a lane can stand."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from ci.config.lanes_model import Lane
from ci.core.errors import UsageError
from ci.lanes import state
from ci.lanes.cli import next_
from ci.lanes.store import Store
from ci.lanes.turn import Begin, Known, Look, OpenRun, Turn
from ci.lanes.upcoming import Upcoming, upcoming
from tests.lane_settings import call, lane
from tests.lane_store import START

BERLIN = ZoneInfo("Europe/Berlin")
HOURLY = lane("0 * * * *")
AFTER = lane({"after_end": {"min": 6, "max": 6}})


def told(one: Lane, known: Known | None = None, *, now: float = START + 1800) -> Upcoming:
    look = Look(now=now, stage=1, zone=BERLIN, late_s=3600, at_once=8)
    (found,) = upcoming({"a": one}, {} if known is None else {"a": known}, look)
    return found


def test_a_lane_that_waits_for_its_time() -> None:
    assert told(HOURLY) == Upcoming(lane="a", at=START + 3600, why="cron 0 * * * *, Europe/Berlin")


def test_a_lane_that_is_due_and_one_that_was() -> None:
    known = Known(looked=START)
    assert told(HOURLY, known, now=START + 3605).state == "is due"
    late = told(HOURLY, known, now=START + 3700)
    assert (late.at, late.state) == (START + 3700, "was due at 2026-06-01 03:00 CEST")


def test_a_lane_that_missed_its_time_by_too_much_waits_for_the_next() -> None:
    once = lane("0 1 * * *")
    assert told(once, Known(looked=START), now=START + 5 * 3600).at == START + 23 * 3600


def test_a_lane_that_runs() -> None:
    known = Known(looked=START, open=OpenRun(due=START, attempt=1))
    found = told(HOURLY, known)
    assert (found.at, found.state) == (START + 3600, "the run of 2026-06-01 02:00 CEST is on")
    ending = told(AFTER, known)
    assert (ending.at, ending.why) == (None, "6 hours after the end of the last run")


def test_a_lane_between_tries() -> None:
    known = Known(looked=START, open=OpenRun(due=START, attempt=1, next_try=START + 1830))
    found = told(HOURLY, known)
    assert (found.at, found.state) == (START + 1830, "the run of 2026-06-01 02:00 CEST is tried again then")
    assert told(HOURLY, known, now=START + 1830).why.startswith("try 2 of 3")


def test_a_lane_that_counts_from_its_end() -> None:
    assert told(AFTER).why == "6 hours after the end of the last run; it has not run yet"
    found = told(AFTER, Known(last_end=START))
    assert (found.at, found.why) == (
        START + 6 * 3600,
        "6 hours after the end of the last run: 6 h 0 min were drawn",
    )


def test_a_lane_without_room_is_due_still() -> None:
    look = Look(now=START + 3700, stage=1, zone=BERLIN, late_s=3600, at_once=1)
    both = {"a": Known(looked=START), "b": Known(looked=START)}
    first, second = upcoming({"a": HOURLY, "b": HOURLY}, both, look)
    assert (first.lane, first.state) == ("a", "was due at 2026-06-01 03:00 CEST")
    assert (second.lane, second.at) == ("b", START + 3700)
    assert second.state == "is due and waits: 1 runs at once, no more"


def test_lanes_that_nobody_here_begins() -> None:
    assert told(lane("0 * * * *", enabled=False)).state == "is disabled"
    other = told(lane("0 * * * *", in_stages=[3]))
    assert (other.at, other.state) == (None, "runs in stage 3 only, and stage 1 is in force")
    by_ci = told(lane("0 * * * *", begun_by="ci"))
    assert (by_ci.at, by_ci.state) == (START + 3600, "is begun by its CI")
    off = told(lane("0 * * * *", begun_by="ci", enabled=False))
    assert (off.at, off.state) == (None, "is disabled")


def test_times_that_a_clock_took_before_it_went_back_do_not_come_again() -> None:
    known = Known(looked=START, taken=frozenset({START + 3600, START + 7200}))
    assert told(HOURLY, known).at == START + 10800


def test_the_soonest_is_first_and_what_never_comes_last() -> None:
    lanes = {"z": HOURLY, "y": lane("0 9 * * *"), "x": lane("0 * * * *", enabled=False)}
    look = Look(now=START, stage=1, zone=BERLIN, late_s=3600, at_once=8)
    assert [one.lane for one in upcoming(lanes, {}, look)] == ["z", "y", "x"]


SETTINGS = """\
lane_worker: {time_zone: Europe/Berlin}
lanes:
  night:
    run: {session: {name: tests}}
    cadence: {cron: 30 2 * * *}
"""


def called(tmp_path: Path, *words: str, settings: str = SETTINGS) -> str:
    return call(next_, tmp_path, settings, *words).stdout


def test_the_verb_sees_from_a_time_in_the_zone_of_the_settings(tmp_path: Path) -> None:
    shown = called(tmp_path, "--at", "2026-03-28T12:00")
    assert "night  2026-03-29 03:00 CEST  cron 30 2 * * *, Europe/Berlin" in shown
    document = json.loads(called(tmp_path, "--at", "2026-10-24T22:00+00:00", "--json"))
    assert document["schema"] == "spyre-ci/lanes-next/1"
    assert document["lanes"] == [
        {
            "lane": "night",
            "at": 1792888200,
            "why": "cron 30 2 * * *, Europe/Berlin",
            "state": "",
            "time": "2026-10-25T00:30:00+00:00",
        }
    ]
    # It looks, and leaves nothing.
    assert [one.name for one in tmp_path.iterdir()] == ["spyre-ci.yaml"]


def test_the_verb_looks_from_now_on_by_itself(tmp_path: Path) -> None:
    assert "night" in called(tmp_path)
    assert called(tmp_path, settings="stage: 1\n") == (
        "there are no lanes: name some under `lanes` in the settings\n"
    )


@pytest.mark.parametrize("text", ["tomorrow", "2026-13-01", "0001-01-01T00:00", "9999-12-31T23:59", ""])
def test_what_is_no_time_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="is no time"):
        called(tmp_path, "--at", text)


def test_the_verb_knows_what_the_worker_knows(tmp_path: Path) -> None:
    path = tmp_path / ".spyre-ci" / "lanes" / "lanes.sqlite"
    night, due = lane("30 2 * * *"), 1792888200
    with closing(Store(path)) as store:
        begun = Begin(lane="night", due=due, attempt=1, why="cron")
        store.note_turn(Turn(begin=(begun,)), {"night": night}, now=due)
    before = path.read_bytes()
    (row,) = json.loads(called(tmp_path, "--at", "2026-10-25T12:00", "--json"))["lanes"]
    assert row["state"] == "the run of 2026-10-25 02:30 CEST is on"
    assert row["time"] == "2026-10-26T01:30:00+00:00"
    assert path.read_bytes() == before


def test_the_verb_waits_for_no_worker_that_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "BUSY_TIMEOUT_S", 0.01)
    path = tmp_path / ".spyre-ci" / "lanes" / "lanes.sqlite"
    with closing(Store(path)) as store:
        store.known(0)
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            assert "night" in called(tmp_path)
