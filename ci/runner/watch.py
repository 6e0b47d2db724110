"""What a worker knows of its child: it follows the journal the child writes, so nothing is told twice."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ci.core.process import signal_name
from ci.record.events import JournalEvent
from ci.record.journal import JournalWriter
from ci.record.journal_line import event_of
from ci.record.run_state import RunState
from ci.runner.child import Child
from ci.runner.oom import oom_kills

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
    """What a file holds from byte `start` on; nothing where it is not there (yet)."""
    try:
        with path.open("rb") as stream:
            stream.seek(start)
            return stream.read()
    except FileNotFoundError:
        return b""


class Watch:
    """The state of one child: which tests ended, which one runs and since when."""

    def __init__(self, journal: JournalWriter, limits: Limits, clock: Callable[[], float]) -> None:
        self.limits = limits
        self.child: Child | None = None
        self.done: set[str] = set()
        self.log_start = 0
        self.file_error: str | None = None
        self.hardware = False  # whether the card failed, as the child itself found
        self._tail = JournalTail(journal.read, start=journal.size)
        self._clock = clock
        self._state = RunState(shard=0, attempt=1)
        self._since = clock()
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
        self.hardware = self.hardware or state.latest.fault is not None
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
        """Seconds since the last thing the child said."""
        return self._clock() - self._since

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
