"""What a supervisor, its workers and their children say to each other: a JSON object a line, over pipes.

A worker gets its task first, as one line, then orders, which it hands on to its child as they are; each
answers `ready` once it has imported, or set up, what it needs, and `done` after each order. What became of
tests is in the journal and nowhere else.
"""

from __future__ import annotations

import json
import os
import select
import selectors
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

CHUNK = 1 << 16
# Why a worker runs a piece: its own, or somebody else's; a test again, because it failed.
Why = Literal["plan", "stolen", "retry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Something typed that goes over a pipe, as plain JSON."""

    def content(self) -> dict[str, Any]:
        """The message as JSON values."""
        found: dict[str, Any] = msgspec.to_builtins(self, enc_hook=os.fspath)
        return found

    def line(self) -> bytes:
        """The message as it goes over the pipe."""
        # By Python's own JSON: names of files may hold bytes that are no UTF-8.
        return json.dumps(self.content(), separators=(",", ":")).encode() + b"\n"

    @classmethod
    def from_content(cls, content: Any) -> Self:
        """The message of JSON values.

        Raises:
            ValueError: they are none.
        """
        return msgspec.convert(content, cls, dec_hook=lambda kind, value: kind(value))

    @classmethod
    def read(cls, line: bytes) -> Self:
        """The message of a line.

        Raises:
            ValueError: it is none.
        """
        return cls.from_content(json.loads(line))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(Message):
    """One attempt at one shard: the journal a worker writes while it works for that shard.

    Attributes:
        shard: its index.
        number: from 1.
        journal: the file.
        log: what its processes print.
        planned: how many tests the shard has.
    """

    shard: int
    number: int
    journal: Path
    log: Path
    planned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions(Message):
    """How a worker runs what it is ordered; times in seconds.

    Attributes:
        run: the readable run id.
        tests: the folder test files are named relative to.
        device: the device under test.
        threads: CPU threads a child may use.
        method: `fork` or `spawn`.
        may_change: whether a worker that has the device open before it forks spawns after all.
        machinery: whether it imports PyTorch's test machinery before it begins.
        test_timeout_s: after which a test counts as hung.
        setup_timeout_s: after which setting a file up counts as hung.
        grace_s: time a process gets to end by itself.
        preflight_timeout_s: after which a card has failed its check; 0: cards are not checked.
        seed: of the run, from which each test's follows; None: nothing is seeded.
        as_try: by id, the try whose seed a test has, where that is not the one it is.
    """

    run: str
    tests: Path
    device: str
    threads: int
    method: str
    may_change: bool = False
    machinery: bool = True
    test_timeout_s: float
    setup_timeout_s: float
    grace_s: float
    preflight_timeout_s: float = 0
    seed: int | None = None
    as_try: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(WorkerOptions):
    """What a worker is told once.

    Attributes:
        parent: the supervisor's process id.
        fingerprint: of the plan.
        card: the name of its card, or of its cards joined by `+`.
        attempt: the shard it begins with.
        again: whether it was told before, by a process that became this one.
    """

    parent: int
    fingerprint: str
    card: str
    attempt: Attempt
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Order(Message):
    """One thing for a worker, or its child, to do.

    Attributes:
        do: `run` the ids; `hold`, which sets the file up and runs nothing; `check` the card; `shard`,
            which begins the journal of another shard; `stop`, as the run was interrupted.
        file: the test file.
        ids: test ids, in any order.
        chains: those of them that run in this order with nothing between them.
        wanted: with `hold`: besides these ids nothing of the file will be asked for; empty: anything may be.
        expectations: by id, as `Expectation.as_json` gives them.
        limits: seconds by id after which a test counts as hung, where they are not the file's.
        test_s: seconds after which a test of this file counts as hung; None: the settings'.
        fresh: whether the ids want a process of their own.
        spawn: whether the process must not be forked.
        why: why this worker runs them.
        of: the shard they are planned for.
        attempt: which try of the tests this is, from 1.
        shard: the shard that begins.
    """

    do: Literal["run", "hold", "check", "shard", "stop"]
    file: str = ""
    ids: tuple[str, ...] = ()
    chains: tuple[tuple[str, ...], ...] = ()
    wanted: tuple[str, ...] = ()
    expectations: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    test_s: float | None = None
    fresh: bool = False
    spawn: bool = False
    why: Why = "plan"
    of: int = 0
    attempt: int = 1
    shard: Attempt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Message):
    """What a worker, or its child, says.

    Attributes:
        what: `ready`, `done`, or its last word, `refused`: it cannot write its journal.
        held: the file it has set up; None where it has none.
        error: with `refused`: the number of the error.
    """

    what: Literal["ready", "done", "refused"]
    held: str | None = None
    error: int | None = None


def read_answer(line: bytes) -> Answer | None:
    """An answer; None where something else wrote to the pipe."""
    try:
        return Answer.read(line)
    except ValueError:
        return None


def wait_for(
    readable: Collection[int], timeout_s: float, *, writable: Collection[int] = ()
) -> Collection[int]:
    """Wait until one of some pipes has something to read, or room; those that do.

    By poll(2): select(2) knows no descriptor from 1,024 on, and whoever started this process may have left it
    many.
    """
    with selectors.PollSelector() as waiting:
        for descriptor in readable:
            waiting.register(descriptor, selectors.EVENT_READ)
        for descriptor in writable:
            waiting.register(descriptor, selectors.EVENT_WRITE)
        return [key.fd for key, _ in waiting.select(timeout_s)]


class Lines:
    """Whole lines of a pipe, waited for with a time-out; `ended` once the other side has closed it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""
        self.ended = False

    def fileno(self) -> int:
        """What is waited for."""
        return self._descriptor

    def closed_within(self, timeout_s: float) -> bool:
        """Whether the other side closes it within so many seconds, whatever is left to be read."""
        waiting = select.poll()
        waiting.register(self._descriptor, 0)  # a hang-up is always told of
        return bool(waiting.poll(timeout_s * 1000))

    def read(self, timeout_s: float = 0.0) -> list[bytes]:
        """The lines that came since the last call; waits so long for the first bytes."""
        if self.ended or not wait_for([self._descriptor], timeout_s):
            return []
        data = os.read(self._descriptor, CHUNK)
        self.ended = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines


class Sender:
    """Sends over a pipe without ever waiting for its reader, who may be busy, stopped or gone."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""
        os.set_blocking(descriptor, False)

    def send(self, content: bytes) -> None:
        """Send so much of it as the pipe takes now, and the rest with later calls of `push`."""
        self._rest += content
        self.push()

    @property
    def unsent(self) -> int | None:
        """What is waited for to send more; None where all was sent."""
        return self._descriptor if self._rest else None

    def push(self) -> None:
        """Send more of what is left; a reader that is gone is noticed by whoever waits for it."""
        try:
            while self._rest:
                self._rest = self._rest[os.write(self._descriptor, self._rest[:CHUNK]) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._rest = b""


def send(descriptor: int, content: bytes) -> None:
    """Write all of it; a reader that is gone is noticed by whoever waits for it."""
    try:
        while content:
            content = content[os.write(descriptor, content) :]
    except BrokenPipeError:
        pass
