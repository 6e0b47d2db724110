"""What a worker knows of its child, and how one that takes too long is ended.

It follows the journal the child writes, so nothing is told twice, and writes there why a child ended before
its work was done. A child that is overdue tells its stacks first, is killed then, and is gone on without
where even that does not end it.

How many processes the kernel has killed for want of memory is as control groups count it. A container sees
its own group at the root of what is mounted; elsewhere `/proc/self/cgroup` says which group a process is in
(`man 7 cgroups`; version 1 counts in `memory.oom_control`, version 2 in `memory.events`).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from ci.core.commands import signal_name
from ci.record import events
from ci.record.events import JournalEvent
from ci.record.journal import JournalWriter
from ci.record.journal_line import event_of
from ci.record.run_state import CardFault, RunState
from ci.runner.child import DUMP_SIGNAL, KILL_S, ChildProcess
from ci.runner.preflight import Finding
from ci.runner.ras import hardware_event

SETUP = ""  # no test has this id


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds things may take.

    Attributes:
        test_s: a test.
        setup_s: a set-up, and what a process does after its last test.
        grace_s: the time a process gets to end by itself.
        by_id: what single tests may take.
    """

    test_s: float
    setup_s: float
    grace_s: float
    by_id: Mapping[str, float] = field(default_factory=dict)

    @property
    def dump_s(self) -> float:
        """How long the dump of the stacks may take before the kill."""
        return min(2.0, self.grace_s)


class JournalTail:
    """New whole lines of a growing journal."""

    def __init__(self, read: Callable[[int], bytes], *, start: int = 0) -> None:
        self._read = read
        self._offset = start

    def read(self) -> list[JournalEvent]:
        """The events written since the last call."""
        data = self._read(self._offset)
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        # A torn line is the reader's of the whole journal to count.
        return [event for line in whole.split(b"\n") if (event := event_of(line)) is not None]


def read_file(path: Path, start: int) -> bytes:
    """What a file holds from byte `start` on; nothing where it is not found (yet)."""
    try:
        with path.open("rb") as stream:
            stream.seek(start)
            return stream.read()
    except FileNotFoundError:
        return b""


class ChildMonitor:
    """The state of one child: which tests ended, which one runs and since when."""

    def __init__(self, journal: JournalWriter, limits: Limits, clock: Callable[[], float]) -> None:
        self.limits = limits
        self.child: ChildProcess | None = None
        self.done: set[str] = set()
        self.log_start = 0
        self.file_error: str | None = None
        self.fault: CardFault | None = None  # the last of the card, as was found in the child or after it
        self._journal = journal
        self._tail = JournalTail(journal.read, start=journal.size)
        self._clock = clock
        self._state = RunState(shard=0, attempt=1)
        self._since = clock()
        self._ended_at: float | None = None
        self._given_up: str | None = None
        self._oom_kills = oom_kills()

    def update(self) -> None:
        """Take in what the child wrote since the last time."""
        for event in self._tail.read():
            self._take(event)

    def _take(self, event: JournalEvent) -> None:
        state, steps = self._state, self._state.steps
        state.take(event)
        if state.steps != steps:
            self._since = self._clock()
        if state.latest.began is not None:
            self.log_start = state.log_start
        self.fault = state.latest.fault or self.fault
        self.done |= state.drain().keys() | state.not_run.keys()
        for error in state.file_errors.values():
            self.file_error = error.message
        state.not_run.clear()
        state.file_errors.clear()

    @property
    def running(self) -> str | None:
        """The test that runs."""
        return self._state.running

    @property
    def ready(self) -> bool:
        """Whether the file was set up."""
        return self._state.ready

    def begin(self, limits: Limits) -> None:
        """A new piece begins: what was waited for it counts for no test."""
        self.limits = limits
        self._oom_kills = oom_kills()  # what was killed before was none of it
        if self.ready:
            self._since = self._clock()

    def left(self, ids: Iterable[str]) -> list[str]:
        """Those of which the child has said nothing."""
        return [one for one in ids if one not in self.done]

    @property
    def running_s(self) -> float:
        """Seconds from the last thing the child said to its end, or until now."""
        return (self._clock() if self._ended_at is None else self._ended_at) - self._since

    def stop(self) -> None:
        """The child has ended: what is looked at from now on costs its test no time."""
        self._ended_at = self._clock()

    def overdue(self) -> bool:
        """Whether the running test, or the set-up, has had its time."""
        return self.running_s > self._limit

    @property
    def _limit(self) -> float:
        if not self.ready:
            return self.limits.setup_s
        return self.limits.by_id.get(self.running or SETUP, self.limits.test_s)

    def give_up(self) -> None:
        """The child is about to be killed for what runs now."""
        self._given_up = self.running or SETUP

    @property
    def bystander(self) -> bool:
        """Whether the running test began just as the child was killed for the one before it."""
        return self._given_up is not None and self.running not in (None, self._given_up)

    def last_lines(self) -> str:
        """The end of what the child printed since the running test began, stacks included."""
        return self.child.last_lines(start=self.log_start) if self.child is not None else ""

    def printed(self) -> str:
        """All that is kept of what the child printed since the running test began."""
        return self.child.last_lines(None, start=self.log_start) if self.child is not None else ""

    def why(self, code: int) -> tuple[str, str]:
        """Why the child ended, as (cause, message).

        Args:
            code: its exit code, negative for a signal.
        """
        if self._given_up is not None:
            return "hang", f"took longer than {self._limit:g} s and was ended"
        if code == -signal.SIGKILL and oom_kills() > self._oom_kills:
            return "oom", "ended by the out-of-memory killer"
        if code < 0:
            return "signal", f"died by {signal_name(-code)}"
        return "exit", f"ended its process with exit code {code}"

    def crashed(self, code: int, check: Callable[[], Finding]) -> bool:
        """Tell of a test that ended with its process; whether that was the card's fault.

        Args:
            code: its exit code.
            check: checks the card, before it runs anything else, where it did not say itself that it failed.
        """
        cause, message = self.why(code)
        ras, blame = "", None if cause == "oom" else self._blame(check)
        if blame is not None:
            said, ras = blame
            cause, message = "hardware", f"{message}; {said}"
        self._journal.write(
            events.Crash(
                id=self.running or "",
                cause=cause,
                message=message,
                detail=self.last_lines(),
                seconds=round(self.running_s, 3),
                ras=ras,
            )
        )
        return blame is not None

    def _blame(self, check: Callable[[], Finding]) -> tuple[str, str] | None:
        """Why a crash is the card's, with the card's own word for it, if it is."""
        if (event := hardware_event(self.printed())) is not None:
            return f"card message: {event}", str(event)
        found = check()
        return None if found.ok else (f"the card failed its check after it: {found.message}", found.ras)

    def card_failed(self, file: str) -> bool:
        """Tell of the card, where that ended a process in which no test ran; whether it did."""
        event = hardware_event(self.printed())
        if event is not None:
            said = f"setting up {file}: card message: {event}"
            self._journal.write(events.CardFault(message=said, ras=str(event), detail=self.last_lines()))
        return event is not None

    def not_forked(self, file: str, code: int) -> None:
        """A copied process could not set the file up: what was imported before may have killed the copy."""
        _, message = self.why(code)
        said = f"setting up {file} in a forked process: {message}; once more in a fresh one"
        self._journal.write(events.Respawn(file=file, message=said, detail=self.last_lines()))

    def not_set_up(self, file: str, code: int) -> str:
        """The file itself could not be had; the reason."""
        if self.file_error is None:
            _, message = self.why(code)
            self.file_error = f"setting up {file}: {message}"
            error = events.FileError(file=file, message=self.file_error, detail=self.last_lines())
            self._journal.write(error)
        return self.file_error


class Watchdog:
    """With one child, while one thing is waited for."""

    def __init__(self, child: ChildProcess, watch: ChildMonitor, clock: Callable[[], float]) -> None:
        self._child, self._watch, self._clock = child, watch, clock
        self._dumped_at: float | None = None
        self._killed_at: float | None = None

    def look(self) -> None:
        """Take the next step if it is time."""
        now = self._clock()
        if not self._watch.overdue():
            self._dumped_at = None  # it ended after all, and what runs now has its own time
        elif self._dumped_at is None:
            self._child.dump_stacks()
            self._dumped_at = now
        elif now - self._dumped_at > self._watch.limits.dump_s:
            self._watch.give_up()
            self.kill()

    def kill(self) -> None:
        """End the child, now."""
        self._child.kill()
        self._killed_at = self._clock() if self._killed_at is None else self._killed_at

    @property
    def over(self) -> bool:
        """Whether the child was killed long ago, and is there all the same."""
        return self._killed_at is not None and self._clock() - self._killed_at > KILL_S

    def ended(self, code: int) -> None:
        """Note where a child ended for being asked for its stacks before it could tell them."""
        if self._dumped_at is not None and code == -DUMP_SIGNAL:
            self._watch.give_up()


ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def event_files(membership: str, root: Path = ROOT) -> list[Path]:
    """The files that count kills of the groups a process is in, whether they are there or not.

    Args:
        membership: what `/proc/PID/cgroup` says.
        root: where control groups are mounted.
    """
    found = {root / "memory.events": None, root / "memory" / "memory.oom_control": None}
    for line in membership.splitlines():
        number, controllers, path = (*line.split(":", 2), "", "")[:3]
        inner = PurePosixPath(path.lstrip("/"))
        if number == "0":
            found[root / inner / "memory.events"] = None
        elif "memory" in controllers.split(","):
            found[root / "memory" / inner / "memory.oom_control"] = None
    return list(found)


def count_kills(files: Iterable[Path]) -> int:
    """The kills all of them count; a file that is not found counts none."""
    total = 0
    for path in files:
        try:
            words = path.read_text(encoding="ascii").split()
        except (OSError, UnicodeDecodeError):
            continue
        if "oom_kill" in words[:-1]:
            total += int(words[words.index("oom_kill") + 1])
    return total


def oom_kills() -> int:
    """How many processes of this control group the kernel has killed for want of memory."""
    try:
        membership = MEMBERSHIP.read_text(encoding="utf-8", errors="replace")
    except OSError:
        membership = ""
    return count_kills(event_files(membership))
