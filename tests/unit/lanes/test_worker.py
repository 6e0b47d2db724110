"""The worker with a clock that is moved by hand, and attempts that are on paper."""

from __future__ import annotations

import contextlib
import itertools
import random
import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ci.core.errors import EXIT_GOES_ON, EXIT_INCOMPLETE, BadFileError, CommandError
from ci.lanes.attempt import End, Launch
from ci.lanes.cadence import times_after
from ci.lanes.ledger import Attempt, Ledger, LedgerAwayError, Status
from tests.lane_settings import lane
from tests.unit.lanes.world import FAILED, LOST, NOON, PASSED, KilledError, World

HOURLY = "0 * * * *"
BERLIN = ZoneInfo("Europe/Berlin")


def statuses(run: list[Attempt]) -> list[str]:
    return [str(one.status) for one in run]


def test_a_lane_that_fails_hinders_no_other_and_every_line_names_its_lane(tmp_path: Path) -> None:
    world = World(tmp_path, {"bad": lane(HOURLY), "good": lane(HOURLY), "off": lane(HOURLY, enabled=False)})
    world.paper.ends = lambda name, _: (60, LOST if name == "bad" else PASSED)
    world.work(2.5)
    assert [statuses(run) for run in world.runs("good")] == [["passed"], ["passed"]]
    assert {line.split(": ")[0] for line in world.said} == {"bad", "good", "off", "worker"}
    assert [line for line in world.said if line.startswith("off")] == ["off: is disabled"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (CommandError("'nox' is not installed", where="there"), "there: 'nox' is not installed"),
        (RuntimeError("whatever"), "RuntimeError: whatever"),
    ],
)
def test_what_cannot_begin_has_ended_with_its_reason_and_is_tried_again(
    tmp_path: Path, error: Exception, reason: str
) -> None:
    world = World(tmp_path, {"one": lane("0 13 * * *", retries={"most": 1, "first_s": 60})})
    world.paper.error = error
    world.at[world.mono + 3600 + 30] = lambda: setattr(world.paper, "error", None)
    world.work(1.5)
    ((first, second),) = world.runs()
    assert (first.status, first.reason, second.status) == (Status.INCOMPLETE, reason, Status.PASSED)


def test_a_full_disk_at_the_start_is_waited_for_and_told_of_once(tmp_path: Path) -> None:
    world = World(tmp_path, {"one": lane("0 13 * * *")})
    world.paper.error = OSError(28, "No space left on device")
    world.at[world.mono + 3600 + 300] = lambda: setattr(world.paper, "error", None)
    world.work(1.5)
    ((attempt,),) = world.runs()
    assert (attempt.attempt, attempt.status) == (1, Status.PASSED)
    assert sum("No space left" in line for line in world.said) == 1


def test_a_ledger_that_is_away_for_a_while_is_waited_for_and_told_of_once(tmp_path: Path) -> None:
    world = World(tmp_path, {"hourly": lane(HOURLY)})

    class Full(Ledger):
        def running(self) -> list[Attempt]:
            if 3000 < world.now - NOON < 8000:
                raise LedgerAwayError("the ledger of lanes cannot be used: disk is full", where="there")
            return super().running()

    world.ledger = Full(tmp_path / "lanes.sqlite", synchronous="OFF")
    world.work(3.5)
    begun = [(run[0].due - int(NOON)) // 3600 for run in world.runs() if run[0].attempt]
    assert begun == [2, 3]
    assert sum("disk is full" in line for line in world.said) == 1
    world.now = NOON + 4000
    with pytest.raises(LedgerAwayError):
        world.once()


def test_a_clock_that_jumps_ends_no_run_and_repeats_none(tmp_path: Path) -> None:
    world = World(tmp_path, {"hourly": lane(HOURLY, time_limit_s=7200)})
    world.paper.ends = lambda *_: (1800, PASSED)

    def jump(days: float) -> None:
        world.now += days * 24 * 3600

    world.at[world.mono + 4000] = lambda: jump(30)
    world.at[world.mono + 9000] = lambda: jump(-60)
    world.work(8)
    assert {one.status for run in world.runs() for one in run if one.attempt} == {Status.PASSED}
    assert len(world.paper.began) >= 6  # it runs on after each jump


def test_a_lane_that_left_the_settings_is_seen_to_its_end_and_begins_no_more(tmp_path: Path) -> None:
    world = World(tmp_path, {"old": lane(HOURLY), "lost": lane(HOURLY)})
    world.paper.ends = lambda *_: (3600, LOST)

    def die() -> None:
        raise KilledError

    world.at[world.mono + 3700] = die
    with pytest.raises(KilledError):
        world.work(2)
    ((noted,),) = world.runs("lost")
    world.paper.began.pop(("lost", f"{noted.due}-1"))  # noted, and killed before it began
    world.lanes = {"new": lane(HOURLY)}
    world.work(2)
    assert [statuses(run) for run in world.runs("old")] == [["incomplete"]]
    assert world.runs("lost")[0][0].reason == "its lane is no longer in the settings"
    assert "old: is no longer in the settings" in world.said
    assert len(world.runs("new")) == 2


def test_once_sees_what_is_due_to_its_end_and_ends_by_what_came_of_it(tmp_path: Path) -> None:
    first = {"after_end": {"min": 1, "max": 1}}
    lanes = {
        "good": lane(first),
        "bad": lane(first, retries={"most": 1, "first_s": 60}),
        "later": lane("0 3 * * *"),
    }
    world = World(tmp_path, lanes, at_once=1)
    for end, code in ((LOST, 3), (FAILED, 1), (PASSED, 0)):
        world.paper.ends = lambda name, _, end=end: (60, end if name == "bad" else PASSED)  # type: ignore[misc]  # mypy infers no default
        assert world.once().exit_code == code
        world.now += 3700
    assert [len(run) for run in world.runs("bad")] == [2, 1, 1]
    assert not any(name == "later" for name, _ in world.paper.began)


def test_by_hand_a_lane_is_begun_at_once_and_nothing_else(tmp_path: Path) -> None:
    retries = {"most": 1, "first_s": 60, "jitter": 0}
    two = lane({"after_end": {"min": 1, "max": 1}})
    world = World(tmp_path, {"one": lane("0 3 * * *", retries=retries), "two": two})
    world.paper.ends = lambda _, number: (60, LOST if number == 1 else PASSED)
    assert world.once(chosen=frozenset({"one"}), by_hand=True).exit_code == 0
    ((first, second),) = world.runs()
    assert (first.lane, first.due, first.why) == ("one", int(NOON), "requested by hand")
    assert second.why == "try 2 of 2"
    world.now = NOON  # at the same time again, by a clock that went back: another run
    world.once(chosen=frozenset({"one"}), by_hand=True)
    assert [run[0].due - int(NOON) for run in world.runs()] == [0, 1]


def test_a_run_that_ends_with_its_worker_is_begun_again_at_once_and_costs_no_try(tmp_path: Path) -> None:
    world = World(tmp_path, {"one": lane(HOURLY, retries={"most": 1, "first_s": 60, "jitter": 0})})
    world.paper.ends = lambda *_: (1200, LOST)
    for _ in range(3):
        world.work(1.05)
    world.work(0.9)
    first = world.runs()[0]
    assert [one.status for one in first if one.counts] == [Status.INCOMPLETE, Status.INCOMPLETE]
    assert any(one.status is Status.CANCELLED and not one.counts for one in first)
    assert "try 2 of 2" in [one.why for one in first]
    assert "it was interrupted" in [one.why for one in first]


def test_told_twice_a_worker_leaves_what_does_not_end_to_the_next_one(tmp_path: Path) -> None:
    world = World(tmp_path, {"one": lane(HOURLY)})
    world.paper.ends, world.paper.obeys = (lambda *_: (7200, PASSED)), False
    world.at[world.mono + 3700] = lambda: world.heard.extend([15, 15])
    world.work(3)
    assert world.said[-1].endswith("is left to the next worker")
    world.work(2)
    assert statuses(world.runs()[0]) == ["passed"]


COMMAND, JOB = {"command": ["x"]}, {"job": {"spec": "s.yaml"}}


@pytest.mark.parametrize(
    ("work", "end", "counts"),
    [
        (COMMAND, End(status=Status.GONE), True),
        (JOB, End(status=Status.GONE), False),
        (COMMAND, End(status=Status.TIMED_OUT), True),
        (JOB, End(status=Status.TIMED_OUT), False),
        (JOB, End(status=Status.INCOMPLETE, exit_code=EXIT_INCOMPLETE), True),
        (JOB, End(status=Status.INCOMPLETE, exit_code=EXIT_GOES_ON), False),
        (COMMAND, End(status=Status.INCOMPLETE, exit_code=EXIT_GOES_ON), False),
    ],
)
def test_what_goes_on_elsewhere_is_followed_and_takes_no_try(
    tmp_path: Path, work: dict[str, Any], end: End, counts: bool
) -> None:
    world = World(tmp_path, {"one": lane(HOURLY, run=work, retries={"most": 1, "first_s": 60})})
    tries: list[int] = []
    launch = world.worker().launch

    def launched(attempt: Attempt, number: int, folder: Path) -> Launch:
        tries.append(number)
        return launch(attempt, number, folder)

    world.paper.ends = lambda _, number: (60, end if number == 1 else PASSED)
    world.work(1.5, launch=launched)
    ((first, _),) = world.runs()
    assert (first.counts, tries) == (counts, [1, 2 if counts else 1])


@pytest.mark.parametrize("signals", [1, 2])
def test_a_ledger_that_stays_away_keeps_no_worker_that_is_told_to_end(tmp_path: Path, signals: int) -> None:
    world = World(tmp_path, {"one": lane(HOURLY)}, ending_s=120)
    begun = world.mono

    class Gone(Ledger):
        def running(self) -> list[Attempt]:
            assert world.mono - begun < 600, "it never leaves"
            if world.mono > begun + 60:
                raise LedgerAwayError("the ledger of lanes cannot be used: disk is full", where="there")
            return super().running()

    world.ledger = Gone(tmp_path / "lanes.sqlite", synchronous="OFF")
    world.at[begun + 90] = lambda: world.heard.extend([15] * signals)
    world.work(1)
    assert world.mono - begun < (100 if signals > 1 else 90 + 120 + 30)


def test_what_is_old_goes_with_its_folder_but_not_the_last_run_of_a_lane(tmp_path: Path) -> None:
    world = World(tmp_path, {"a": lane(HOURLY), "b": lane("0 13 23 11 *")}, keep_days=8)
    world.work(2.5)
    (tmp_path / "a" / f"{int(NOON) + 3600}-1").mkdir(parents=True)
    world.now += 9 * 24 * 3600
    world.mono += 9 * 24 * 3600
    world.work(1)
    assert len(world.runs("b")) == 1
    assert world.runs("a")[0][0].due == NOON + 2 * 3600
    assert not any((tmp_path / "a").iterdir())


@pytest.mark.parametrize(
    "begin",
    [datetime(2026, 10, 18, tzinfo=BERLIN), datetime(2027, 3, 21, tzinfo=BERLIN)],
    ids=["winter", "summer"],
)
def test_killed_two_hundred_times_in_two_weeks_no_run_is_forgotten_and_none_is_made_twice(
    tmp_path: Path, begin: datetime
) -> None:
    lines = {"hourly": "17 * * * *", "night": "30 2 * * *", "often": "*/40 * * * *"}
    lanes = {name: lane(line, retries={"most": 2, "first_s": 60}) for name, line in lines.items()}
    lanes["again"] = lane({"after_end": {"min": 6, "max": 8}})
    start, end = begin.timestamp(), begin.timestamp() + 14 * 24 * 3600
    world = World(tmp_path, lanes, start - 5, poll_s=300, time_zone="Europe/Berlin")
    rng = random.Random(3)  # noqa: S311  # when to kill is no secret

    def ends(_lane: str, number: int) -> tuple[float, End]:
        return rng.choice([60, 900]), LOST if number == 1 and rng.random() < 0.2 else PASSED

    world.paper.ends = ends
    world.once()  # all lanes are known from here on
    killed = 0
    while killed < 200:
        killed += world.die(rng.randrange(1, 120), after=rng.random() < 0.5, until=end)
        assert world.now < end, "the weeks were over before it was killed 200 times"
    world.work((end - world.now) / 3600)
    runs = world.runs()
    for name in lines:
        due = [run[0].due for run in runs if run[0].lane == name and run[0].attempt]
        skipped = {run[0].due for run in runs if run[0].lane == name and not run[0].attempt}
        wanted = itertools.takewhile(
            lambda at: at < end - 3600, times_after(lanes[name].cadence, BERLIN, start)
        )
        assert len(due) == len(set(due))
        assert {*wanted} <= {*due, *skipped}, "a time is neither begun nor told as skipped"
        assert not skipped or name == "often", "its runs end before its next time"
        assert {one for run in runs if run[0].lane == name for one in statuses(run)[-1:]} <= {
            "passed",
            "skipped",
        }
    again = [run for run in runs if run[0].lane == "again"]
    for before, after in itertools.pairwise(again):
        assert before[-1].ended_at is not None
        assert 6 * 3600 <= after[0].due - int(before[-1].ended_at) <= 8 * 3600


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"not a database, but more than a hundred bytes of something else" * 3, "file is not a database"),
        ("CREATE TABLE lanes (x)", "a database of another program or version (0)"),
        ("CREATE TABLE lanes (x); PRAGMA user_version = 1", "a database of another program or version (1)"),
    ],
)
def test_a_ledger_that_is_none_is_refused_and_left_as_it_is(
    tmp_path: Path, content: bytes | str, found: str
) -> None:
    path = tmp_path / "lanes.sqlite"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with contextlib.closing(sqlite3.connect(path)) as file:
            file.executescript(content)
    before = path.read_bytes()
    with pytest.raises(BadFileError, match=r"or move this file away") as caught:
        Ledger(path).states(NOON)
    assert caught.value.what == f"is not a ledger of lanes: {found}"
    assert path.read_bytes() == before


def test_a_ledger_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "lanes.sqlite").mkdir()
    with pytest.raises(LedgerAwayError, match=r"check the folder's rights") as caught:
        Ledger(tmp_path / "lanes.sqlite").running()
    assert caught.value.exit_code == 3
