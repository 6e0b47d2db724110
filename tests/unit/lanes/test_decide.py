"""What begins at a look at the clock, over the worker's own ledger, whatever the clock shows."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci.config.lanes_model import Lane, LaneWorker
from ci.lanes.decide import (
    MOST_BACK_S,
    LaneState,
    Moment,
    OpenRun,
    decide,
    next_time,
    retry_wait_s,
)
from ci.lanes.ledger import Attempt, Ledger, Status
from tests.lane_settings import lane

START = int(datetime(2026, 6, 1, tzinfo=UTC).timestamp())
DAY, HOURLY = 86400, "0 * * * *"
YEAR = 365 * DAY


def at(now: float, *, stage: int = 1, **worker: Any) -> Moment:
    return Moment(now=now, stage=stage, worker=LaneWorker.model_validate(worker))


class Desk:
    """A worker without processes: it looks, and ends what it began."""

    def __init__(self, folder: Path, lanes: dict[str, Lane], **given: Any) -> None:
        self.lanes, self.ledger = lanes, Ledger(folder / "lanes.sqlite", synchronous="OFF")
        self.moment: dict[str, Any] = {"stage": 1, "late_s": 3600.0, "at_once": 8, **given}
        self.begun: list[tuple[str, int, int]] = []
        self.on: dict[str, Attempt] = {}
        self.skipped: list[tuple[int, str]] = []
        self.quiet: dict[str, str] = {}

    def look(self, after_s: float) -> list[tuple[str, int]]:
        """What begins so many seconds after the start: the lane, and for which time after it."""
        moment = at(START + after_s, **self.moment)
        self.ledger.set_back(moment.now)
        decision = decide(self.lanes, self.ledger.states(moment.now), moment)
        self.skipped += [(note.due - START, note.why) for note in decision.skip]
        self.quiet = decision.quiet
        started = self.ledger.note(decision, moment.now)
        for one in started:
            assert one.lane not in self.on, "two attempts at once"
            assert one.key not in self.begun, "begun twice"
            self.on[one.lane] = one
            self.begun.append(one.key)
        return [(one.lane, one.due - START) for one in started]

    def end(self, name: str, after_s: float, *, answered: bool = True) -> None:
        attempt, now = self.on.pop(name), START + after_s
        run = OpenRun(due=attempt.due, tries=self.ledger.tries(attempt))
        wait = None if answered else retry_wait_s(self.lanes[name], name, run)
        self.ledger.ended(
            Attempt(
                lane=name, due=attempt.due, attempt=attempt.attempt, why="", begun_at=attempt.begun_at,
                status=Status.PASSED if answered else Status.GONE, ended_at=now,
                retry_at=None if wait is None else now + wait,
            )
        )  # fmt: skip


def test_a_new_lane_has_missed_nothing_and_begins_at_its_next_time(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"a": lane(HOURLY)})
    assert [desk.look(at) for at in (1800, 3599, 3600)] == [[], [], [("a", 3600)]]
    assert desk.look(3610) == []


def test_one_run_at_a_time_and_the_times_it_takes_are_skipped(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"a": lane("* * * * *")})
    desk.look(1)
    assert desk.look(60) == [("a", 60)]
    assert desk.look(190) == []
    assert desk.skipped == [(180, "the run due 2026-06-01 00:01 UTC had not ended (and 1 time before it)")]
    # One that came while it ran is skipped too where the end is seen at the same look.
    desk.end("a", 250)
    assert desk.look(310) == [("a", 300)]
    assert desk.skipped[1:] == [(240, "the run before it had not ended")]


@pytest.mark.parametrize(
    ("now", "begins", "skipped"),
    [
        (3 * 3600 + 5, [("a", 3 * 3600)], (2 * 3600, "no worker ran at its time, and a later one starts")),
        (3 * 3600 + 1800, [("a", 3 * 3600)], (2 * 3600, "no worker ran at its time")),
        (
            3 * 3600 + 1801,
            [],
            (3 * 3600, "it was not started within 1800 s: no worker ran, or no slot was free"),
        ),
    ],
)
def test_of_missed_times_the_last_begins_where_it_is_not_too_late(
    tmp_path: Path, now: int, begins: list[tuple[str, int]], skipped: tuple[int, str]
) -> None:
    desk = Desk(tmp_path, {"a": lane(HOURLY)}, late_s=1800)
    desk.look(1)
    assert desk.look(now) == begins
    ((due, why),) = desk.skipped
    assert due == skipped[0]
    assert why.startswith(skipped[1])


def test_a_clock_that_goes_back_begins_nothing_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"a": lane(HOURLY)})
    desk.look(1)
    assert desk.look(3600) == [("a", 3600)]
    desk.end("a", 3700)
    assert [desk.look(at) for at in (1800, 3600, 7199, 7200)] == [[], [], [], [("a", 7200)]]


def test_a_clock_that_was_a_year_ahead_for_a_while_blocks_no_lane(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"a": lane("0 2 * * *")})
    desk.look(3 * 3600)
    assert desk.look(YEAR + 7200) == [("a", YEAR + 7200)]
    desk.end("a", YEAR + 7300)
    assert desk.look(4 * 3600) == []
    for day in (1, 2):  # what was skipped comes after all
        assert desk.look(day * DAY + 7200) == [("a", day * DAY + 7200)]
        desk.end("a", day * DAY + 7300)


def test_a_clock_that_jumps_ahead_to_stay_looks_back_a_day_at_most(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"a": lane("*/10 * * * *")})
    desk.look(1)
    assert desk.look(YEAR) == [("a", YEAR)]
    assert desk.skipped[0][1].endswith(f"(and {MOST_BACK_S // 600 - 2:,} times before it)")


def test_a_lane_is_retried_as_its_back_off_says_also_after_a_restart(tmp_path: Path) -> None:
    retries = {"most": 2, "first_s": 100, "factor": 3, "jitter": 0}
    desk = Desk(tmp_path, {"a": lane({"after_end": {"min": 1, "max": 1}}, retries=retries)})
    assert desk.look(0) == [("a", 0)]
    desk.end("a", 10, answered=False)
    assert [desk.look(at) for at in (109, 110)] == [[], [("a", 0)]]
    desk.end("a", 120, answered=False)
    assert [desk.look(at) for at in (419, 420)] == [[], [("a", 0)]]
    desk.end("a", 500, answered=False)
    # All tries were made: its next run counts from there.
    assert [desk.look(at) for at in (4099, 4100)] == [[], [("a", 4100)]]
    assert [number for *_, number in desk.begun] == [1, 2, 3, 1]


@pytest.mark.parametrize("answered", [True, False])
def test_what_lies_ahead_of_a_clock_that_went_back_is_of_now(tmp_path: Path, *, answered: bool) -> None:
    desk = Desk(tmp_path, {"a": lane({"after_end": {"min": 1, "max": 1}}, retries={"most": 1})})
    desk.look(YEAR)
    desk.end("a", YEAR + 10, answered=answered)
    # One that gave no answer is tried at once, and the time after an end counts from now.
    assert [desk.look(at) for at in (0, 3599)] == ([[], []] if answered else [[("a", YEAR)], []])
    assert desk.look(3600) == ([("a", 3600)] if answered else [])


def test_a_lane_that_is_off_says_why_begins_nothing_and_has_missed_nothing_later(tmp_path: Path) -> None:
    there = {"a": lane(HOURLY, retries={"first_s": 3000, "jitter": 0}), "b": lane(HOURLY)}
    desk = Desk(tmp_path, dict(there))
    desk.look(1)
    desk.look(3600)
    desk.end("a", 3700, answered=False)
    off = [
        (lane(HOURLY, enabled=False), "is disabled"),
        (lane(HOURLY, in_stages=[2, 3]), "runs only in stage 2, 3, and the current stage is 1"),
        (lane(HOURLY, begun_by={"github": "nightly.yml"}), "is started by its CI"),
    ]
    for desk.lanes["a"], why in off:
        assert desk.look(10_000) == []
        assert desk.quiet["a"] == why
    # What waited for a retry is given up, and what runs goes on.
    assert desk.ledger.states(START + 10_000)["a"].open is None
    desk.lanes.pop("b")
    desk.look(10_000)
    assert desk.quiet["b"] == "is no longer in the settings"
    assert desk.ledger.states(START + 10_000)["b"].open is not None
    desk.lanes["a"] = there["a"]
    assert [desk.look(at) for at in (14_000, 14_400)] == [[], [("a", 14_400)]]


def test_where_there_is_no_room_the_longest_due_is_first_and_what_waits_too_long_is_skipped(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path, {"a": lane("0 2 * * *"), "b": lane("0 1 * * *")}, at_once=1, late_s=7200)
    desk.look(1)
    assert desk.look(2 * 3600 + 60) == [("b", 3600)]
    assert desk.quiet["a"] == "is due and waits: lane_worker.at_once is 1"
    desk.end("b", 3 * 3600)
    assert desk.look(3 * 3600) == [("a", 7200)]
    desk.end("a", 3 * 3600 + 10)
    desk.look(DAY + 2 * 3600)
    assert desk.look(DAY + 4 * 3600 + 1) == []
    assert desk.skipped[-1] == (
        DAY + 7200,
        "it was not started within 7200 s: no worker ran, or no slot was free",
    )


def test_by_hand_a_lane_begins_at_once_whatever_its_cadence_says() -> None:
    moment = at(START + 0.5, late_s=60)
    lanes = {"a": lane(HOURLY), "b": lane(HOURLY)}
    taken = {"a": LaneState(looked=START, begun=frozenset({START}))}
    (note,) = decide(lanes, taken, moment, {"a"}).begin
    assert (note.lane, note.due - START, note.why) == ("a", 1, "requested by hand")
    running = {"a": LaneState(open=OpenRun(due=START, tries=1))}
    assert decide(lanes, running, moment, {"a"}).begin == []
    waits = {"a": LaneState(open=OpenRun(due=START, tries=1, retry_at=START + 3600))}
    (note,) = decide(lanes, waits, moment, {"a"}).begin
    assert (note.lane, note.due, note.why) == ("a", START, "requested by hand")


def test_a_time_after_an_end_is_never_one_that_was_begun_by_a_wrong_clock() -> None:
    one = lane({"after_end": {"min": 1, "max": 1}})
    moment = at(START, late_s=60)
    state = LaneState(last_end=START, begun=frozenset({START + 3600, START + 3601}))
    assert next_time(one, "a", state, moment) == START + 3602


@given(st.integers(0, 20), st.floats(1, 1000), st.floats(1, 10), st.floats(0, 1), st.integers(0, 99))
def test_waits_are_drawn_alike_and_none_is_beyond_the_longest(
    most: int, first_s: float, factor: float, jitter: float, seed: int
) -> None:
    retries = {"most": most, "first_s": first_s, "factor": factor, "jitter": jitter, "longest_s": 3600}
    one = lane(HOURLY, retries=retries, seed=seed)
    waits = [retry_wait_s(one, "a", OpenRun(due=START, tries=number)) for number in range(1, most + 2)]
    assert waits == [
        retry_wait_s(one, "a", OpenRun(due=START, tries=number)) for number in range(1, most + 2)
    ]
    assert waits[-1] is None
    for number, wait in enumerate(waits[:-1]):
        assert wait is not None
        bare = min(first_s * factor**number, 3600)
        assert bare <= wait <= min(2 * bare, 3600)


JUMPS = st.one_of(
    st.integers(0, 600), st.integers(-7200, 7200), st.sampled_from([DAY, -DAY, YEAR, -YEAR, 3599, 3601])
)
LANES = st.fixed_dictionaries(
    {
        "a": st.sampled_from(["*/10 * * * *", "*/50 * * * *", "0 2 * * *"]).map(
            lambda line: lane(line, retries={"most": 2, "first_s": 30})
        ),
        "b": st.sampled_from([0, 0.01, 6]).map(lambda low: lane({"after_end": {"min": low, "max": low + 1}})),
        "c": st.integers(1, 24).map(lambda number: lane({"times_a_day": number}, retries={"most": 0})),
    }
)
EVENTS = st.lists(
    st.tuples(
        JUMPS, st.dictionaries(st.sampled_from("abc"), st.booleans()), st.sampled_from(["", "", "a", "b"])
    ),
    max_size=25,
)


@settings(max_examples=15)
@given(LANES, EVENTS, st.integers(1, 3))
def test_over_any_clock_nothing_begins_twice_and_when_it_runs_again_every_lane_does(
    lanes: dict[str, Lane], events: list[tuple[int, dict[str, bool], str]], at_once: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        desk, now = Desk(Path(folder), dict(lanes), at_once=at_once), 0
        for jump, ends, toggled in events:
            now += jump
            if toggled:
                before = desk.lanes[toggled]
                desk.lanes[toggled] = before.model_copy(update={"enabled": not before.enabled})
            for name, answered in ends.items():
                if name in desk.on:
                    desk.end(name, now, answered=answered)
            desk.look(now)  # the desk refuses a second begin, run or attempt
            assert len(desk.on) <= at_once
        desk.lanes, count, desk.moment["at_once"] = dict(lanes), len(desk.begun), 8
        # The longest wait is a day, and one that a jump took beforehand may be missing from it.
        for _ in range(3 * 24):
            for name in list(desk.on):
                desk.end(name, now)
            now += 3600
            desk.look(now)
        assert {name for name, _, _ in desk.begun[count:]} | set(desk.on) == set(lanes)
