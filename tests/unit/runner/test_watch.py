from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ci.record import events
from ci.record.journal import JournalWriter
from ci.record.journal_line import line_of
from ci.runner import watch as watch_module
from ci.runner.watch import JournalTail, Limits, Watch, read_file

LIMITS = Limits(test_s=10, setup_s=100, grace_s=5)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def journal(tmp_path: Path) -> JournalWriter:
    return JournalWriter(tmp_path / "0-1.jsonl", lambda: 0.0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watch(journal: JournalWriter, clock: Clock) -> Watch:
    journal.write(events.GroupStart(file="f"))
    return Watch(journal, LIMITS, clock)


def test_it_knows_what_runs_and_what_is_done(watch: Watch, journal: JournalWriter) -> None:
    journal.write(events.GroupReady(file="f", setup_s=1))
    journal.write(events.Start(id="a"))
    journal.write(events.End(id="a", outcome="passed"))
    journal.write(events.Start(id="b"))
    watch.update()
    assert (watch.done, watch.running) == ({"a"}, "b")


def test_what_was_written_before_it_is_not_its_own(journal: JournalWriter) -> None:
    journal.write(events.Start(id="old"))
    late = Watch(journal, LIMITS, Clock())
    late.update()
    assert late.running is None


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


def test_a_set_up_has_its_own_limit(watch: Watch, clock: Clock) -> None:
    clock.now = 99
    assert not watch.overdue()
    clock.now = 101
    assert watch.overdue()
    watch.give_up()
    assert watch.why(-9) == ("hang", "took longer than 100 s and was ended")


def test_a_test_that_takes_too_long_hangs(watch: Watch, journal: JournalWriter, clock: Clock) -> None:
    journal.write(events.GroupReady(file="f", setup_s=1))
    journal.write(events.Start(id="a"))
    watch.update()
    clock.now = 10.5
    assert watch.overdue()
    watch.give_up()
    assert watch.why(-signal.SIGKILL) == ("hang", "took longer than 10 s and was ended")


def test_a_test_that_ends_late_does_not_cost_the_next_one(
    watch: Watch, journal: JournalWriter, clock: Clock
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
    watch: Watch, journal: JournalWriter, clock: Clock
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


def test_a_quiet_time_between_tests_starts_anew(watch: Watch, journal: JournalWriter, clock: Clock) -> None:
    journal.write(events.GroupReady(file="f", setup_s=1))
    watch.update()
    clock.now = 9
    journal.write(events.Start(id="a"))
    watch.update()
    clock.now = 18
    assert not watch.overdue()


def test_the_cause_of_an_end_is_told_apart(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    assert watch.why(-signal.SIGSEGV) == ("signal", "died by SIGSEGV")
    assert watch.why(-40) == ("signal", "died by signal 40")
    assert watch.why(0) == ("exit", "ended its process with exit code 0")
    monkeypatch.setattr(watch_module, "oom_kills", lambda: 10**9)
    assert watch.why(-signal.SIGKILL)[0] == "oom"
