from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import cast

import pytest

from ci.record import events
from ci.record.journal import JournalWriter
from ci.record.journal_line import line_of
from ci.runner import watchdog
from ci.runner.child import DUMP_SIGNAL, KILL_S, ChildProcess, gone
from ci.runner.preflight import Finding, check
from ci.runner.watchdog import (
    ChildMonitor,
    JournalTail,
    Limits,
    Watchdog,
    count_kills,
    event_files,
    oom_kills,
    read_file,
)

LIMITS = Limits(test_s=10, setup_s=100, grace_s=5)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def journal(tmp_path: Path) -> JournalWriter:
    return JournalWriter(tmp_path / "0-1.jsonl", lambda: 0.0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watch(journal: JournalWriter, clock: Clock) -> ChildMonitor:
    journal.write(events.GroupStart(file="f"))
    return ChildMonitor(journal, LIMITS, clock)


def test_it_knows_what_runs_and_what_is_done(watch: ChildMonitor, journal: JournalWriter) -> None:
    journal.write(events.GroupReady(file="f", setup_s=1))
    journal.write(events.Start(id="a"))
    journal.write(events.End(id="a", outcome="passed"))
    journal.write(events.Start(id="b"))
    watch.update()
    assert (watch.done, watch.running) == ({"a"}, "b")


def test_what_was_written_before_it_is_not_its_own(journal: JournalWriter) -> None:
    journal.write(events.Start(id="old"))
    late = ChildMonitor(journal, LIMITS, Clock())
    late.update()
    assert late.running is None


def test_what_is_looked_at_after_a_childs_end_costs_its_test_no_time(
    watch: ChildMonitor, journal: JournalWriter, clock: Clock, tmp_path: Path
) -> None:
    journal.write(events.GroupReady(file="f", setup_s=1))
    journal.write(events.Start(id="a"))
    watch.update()
    clock.now += 1.5
    watch.stop()
    clock.now += 2.0
    assert not watch.crashed(-signal.SIGTERM, lambda: Finding(ok=True, seconds=0.1))
    last = json.loads((tmp_path / "0-1.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert (last["e"], last["seconds"]) == ("crash", 1.5)


def test_a_line_that_is_still_being_written_waits(tmp_path: Path) -> None:
    path = tmp_path / "j"
    start, end = map(line_of, (events.Start(id="a"), events.End(id="a", outcome="passed")))
    path.write_bytes(start + end[:9])
    tail = JournalTail(lambda start: read_file(path, start))
    assert tail.read() == [events.Start(id="a")]
    with path.open("ab") as stream:
        stream.write(end[9:])
    assert tail.read() == [events.End(id="a", outcome="passed")]
    assert tail.read() == []


def test_a_journal_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    assert JournalTail(lambda start: read_file(tmp_path / "none", start)).read() == []


def test_a_set_up_has_its_own_limit(watch: ChildMonitor, clock: Clock) -> None:
    clock.now = 99
    assert not watch.overdue()
    clock.now = 101
    assert watch.overdue()
    watch.give_up()
    assert watch.why(-9) == ("hang", "took longer than 100 s and was ended")


def test_a_test_that_takes_too_long_hangs(watch: ChildMonitor, journal: JournalWriter, clock: Clock) -> None:
    journal.write(events.GroupReady(file="f", setup_s=1))
    journal.write(events.Start(id="a"))
    watch.update()
    clock.now = 10.5
    assert watch.overdue()
    watch.give_up()
    assert watch.why(-signal.SIGKILL) == ("hang", "took longer than 10 s and was ended")


def test_a_test_that_ends_late_does_not_cost_the_next_one(
    watch: ChildMonitor, journal: JournalWriter, clock: Clock
) -> None:
    journal.write(events.GroupReady(file="f", setup_s=1))
    journal.write(events.Start(id="late"))
    watch.update()
    clock.now = 10.5
    assert watch.overdue()
    journal.write(events.End(id="late", outcome="passed"))
    journal.write(events.Start(id="next"))
    watch.update()
    assert not watch.overdue()


def test_a_test_that_began_as_the_child_was_killed_is_a_bystander(
    watch: ChildMonitor, journal: JournalWriter, clock: Clock
) -> None:
    journal.write(events.GroupReady(file="f", setup_s=1))
    journal.write(events.Start(id="late"))
    watch.update()
    clock.now = 13
    watch.give_up()
    assert not watch.bystander
    journal.write(events.End(id="late", outcome="passed"))
    journal.write(events.Start(id="next"))
    watch.update()
    assert watch.bystander


def test_a_quiet_time_between_tests_starts_anew(
    watch: ChildMonitor, journal: JournalWriter, clock: Clock
) -> None:
    journal.write(events.GroupReady(file="f", setup_s=1))
    watch.update()
    clock.now = 9
    journal.write(events.Start(id="a"))
    watch.update()
    clock.now = 18
    assert not watch.overdue()


def test_the_cause_of_an_end_is_told_apart(watch: ChildMonitor, monkeypatch: pytest.MonkeyPatch) -> None:
    assert watch.why(-signal.SIGSEGV) == ("signal", "died by SIGSEGV")
    assert watch.why(-40) == ("signal", "died by signal 40")
    assert watch.why(0) == ("exit", "ended its process with exit code 0")
    monkeypatch.setattr(watchdog, "oom_kills", lambda: 10**9)
    assert watch.why(-signal.SIGKILL)[0] == "oom"


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


def watched(tmp_path: Path, clock: Clock) -> ChildMonitor:
    journal = JournalWriter(tmp_path / "0-1.jsonl", lambda: 0.0)
    return ChildMonitor(journal, Limits(test_s=5, setup_s=10, grace_s=1), clock)


def test_first_the_stacks_then_the_kill_then_nothing_is_waited_for(tmp_path: Path, clock: Clock) -> None:
    child, watch = Stuck(), watched(tmp_path, clock)
    one = Watchdog(cast(ChildProcess, child), watch, clock)
    for clock.now in (5.0, 10.1, 10.5, 11.2):
        one.look()
    assert child.asked == ["stacks", "kill"]
    over = [one.over]
    clock.now += KILL_S + 1
    assert [*over, one.over] == [False, True]
    assert watch.why(-signal.SIGKILL)[0] == "hang"


def test_who_ends_in_time_after_all_is_left_alone(tmp_path: Path, clock: Clock) -> None:
    child, watch = Stuck(), watched(tmp_path, clock)
    one = Watchdog(cast(ChildProcess, child), watch, clock)
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
    one = Watchdog(cast(ChildProcess, Stuck()), watch, clock)
    one.ended(-DUMP_SIGNAL)
    assert watch.why(-DUMP_SIGNAL)[0] == "signal"
    clock.now = 11.0
    one.look()
    one.ended(-DUMP_SIGNAL)
    assert watch.why(-DUMP_SIGNAL)[0] == "hang"


def test_what_no_signal_ends_is_not_waited_for_for_ever(clock: Clock) -> None:
    assert not gone(cast(ChildProcess, Stuck()), clock=clock, sleep=clock.sleep)
    assert KILL_S < clock.now < KILL_S + 1


def test_a_check_whose_process_never_ends_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci.runner.child.KILL_S", 0.0)
    monkeypatch.setattr("ci.runner.preflight.start", lambda *_, **__: Stuck())
    monkeypatch.setattr("ci.runner.preflight.DUMP_S", 0.0)
    found = check({}, log=tmp_path / "log", method="fork", timeout_s=0.0, stopped=lambda: False)
    assert not found.ok
    assert found.message == "took longer than 0 s; its process cannot be ended"


@pytest.mark.parametrize(
    ("membership", "more"),
    [
        ("", set()),
        ("0::/", set()),
        ("0::/user.slice/run-1.scope", {"user.slice/run-1.scope/memory.events"}),
        ("8:pids:/x\n4:memory:/pod/one\n0::/", {"memory/pod/one/memory.oom_control"}),
        ("4:cpu,memory:/", set()),
        ("nonsense\n::", set()),
    ],
)
def test_the_groups_of_both_versions_are_found(membership: str, more: set[str]) -> None:
    always = {"memory.events", "memory/memory.oom_control"}
    assert {str(path) for path in event_files(membership, Path())} == always | more


def test_kills_of_all_groups_are_counted(tmp_path: Path) -> None:
    one, two, other = (tmp_path / name for name in ("one", "two", "other"))
    assert count_kills([one, two, other]) == 0
    one.write_text("low 0\noom 3\noom_kill 2\n", encoding="ascii")
    two.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n", encoding="ascii")
    other.write_text("oom_kill", encoding="ascii")
    assert count_kills([one, two, other]) == 7


def test_a_system_without_control_groups_counts_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "MEMBERSHIP", tmp_path / "none")
    assert oom_kills() >= 0
