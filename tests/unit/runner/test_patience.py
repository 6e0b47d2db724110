"""A child that takes too long is asked for its stacks, then killed, then gone on without."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import cast

import pytest

from ci.record import events
from ci.record.journal import JournalWriter
from ci.runner import patience
from ci.runner.child import DUMP_SIGNAL, Child
from ci.runner.patience import KILL_S, Patience, gone
from ci.runner.preflight import check
from ci.runner.watch import Limits, Watch


class Stuck:
    """A child in a driver: no signal ends it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.log = Path("/nonexistent")

    def poll(self) -> int | None:
        return None

    def dump_stacks(self) -> None:
        self.asked.append("stacks")

    def kill(self) -> None:
        self.asked.append("kill")

    def last_lines(self, count: int | None = 50, *, start: int = 0) -> str:
        return f"lines {count} from {start}"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def watched(tmp_path: Path, clock: Clock) -> Watch:
    journal = JournalWriter(tmp_path / "0-1.jsonl", lambda: 0.0)
    return Watch(journal, Limits(test_s=5, setup_s=10, grace_s=1), clock)


def test_first_the_stacks_then_the_kill_then_nothing_is_waited_for(tmp_path: Path, clock: Clock) -> None:
    child, watch = Stuck(), watched(tmp_path, clock)
    one = Patience(cast(Child, child), watch, clock)
    for clock.now in (5.0, 10.1, 10.5, 11.2):
        one.look()
    assert child.asked == ["stacks", "kill"]
    over = [one.over]
    clock.now += KILL_S + 1
    assert [*over, one.over] == [False, True]
    assert watch.why(-signal.SIGKILL)[0] == "hang"


def test_who_ends_in_time_after_all_is_left_alone(tmp_path: Path, clock: Clock) -> None:
    child, watch = Stuck(), watched(tmp_path, clock)
    one = Patience(cast(Child, child), watch, clock)
    clock.now = 10.5
    one.look()
    JournalWriter(tmp_path / "0-1.jsonl", clock).write(events.GroupReady(file="a.py", setup_s=1.0))
    watch.update()
    clock.now = 12.0
    one.look()
    assert child.asked == ["stacks"]
    assert not one.over


def test_a_child_that_dies_of_being_asked_for_its_stacks_was_hanging(tmp_path: Path, clock: Clock) -> None:
    watch = watched(tmp_path, clock)
    one = Patience(cast(Child, Stuck()), watch, clock)
    one.ended(-DUMP_SIGNAL)
    assert watch.why(-DUMP_SIGNAL)[0] == "signal"
    clock.now = 11.0
    one.look()
    one.ended(-DUMP_SIGNAL)
    assert watch.why(-DUMP_SIGNAL)[0] == "hang"


def test_what_no_signal_ends_is_not_waited_for_for_ever(clock: Clock) -> None:
    assert not gone(cast(Child, Stuck()), clock=clock, sleep=clock.sleep)
    assert KILL_S < clock.now < KILL_S + 1


def test_a_check_whose_process_never_ends_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "KILL_S", 0.0)
    monkeypatch.setattr("ci.runner.preflight.start", lambda *_, **__: Stuck())
    monkeypatch.setattr("ci.runner.preflight.DUMP_S", 0.0)
    found = check({}, log=tmp_path / "log", method="fork", timeout_s=0.0, stopped=lambda: False)
    assert not found.ok
    assert found.message == "took longer than 0 s; its process cannot be ended"
