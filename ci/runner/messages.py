"""What a supervisor orders its workers to do and what they answer: a JSON object a line, over pipes.

A worker gets its task first, as one line, then orders; it answers `ready` once it has
imported what it needs and `done` after each order. What became of tests is in its journal and nowhere else.
"""

from __future__ import annotations

import json
import os
import select
import selectors
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Kind = Literal["run", "hold", "check", "shard", "stop"]
# Why a worker runs a piece: its own, or somebody else's; a test again, because it failed.
Why = Literal["plan", "stolen", "retry"]
CHUNK = 1 << 16
# A child's answers to its worker, a byte each: the order is done; the journal takes nothing more.
DONE, UNWRITTEN = b".", b"!"
# A worker's last word to its supervisor, with the error's number.
REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One thing for a worker to do.

    Attributes:
        do: `run` the ids; `hold`, which sets the file up and runs nothing; `check` the card; `shard`,
            which begins the journal of another shard; `stop`, as the run was interrupted.
        file: the test file.
        ids: canonical ids, in any order.
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
        shard: the shard that begins, with its attempt, journal, log and number of planned tests.
    """

    do: Kind
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
    shard: Mapping[str, Any] = field(default_factory=dict)

    def line(self) -> bytes:
        """The order as it goes over the pipe."""
        return json.dumps(asdict(self), separators=(",", ":")).encode() + b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a worker says.

    Attributes:
        what: `ready`, `done`, or its last word, `refused`.
        held: the file it has set up; None where it has none.
        error: with `refused`: the number of the error for which it cannot write its journal.
    """

    what: str
    held: str | None = None
    error: int | None = None

    def line(self) -> bytes:
        """The answer as it goes over the pipe."""
        return json.dumps({"m": self.what, "held": self.held, "error": self.error}).encode() + b"\n"


def read_answer(line: bytes) -> Answer | None:
    """An answer; None where something else wrote to the worker's output before the worker had it."""
    try:
        row = json.loads(line)
        return Answer(what=str(row["m"]), held=row["held"], error=row["error"])
    except (ValueError, TypeError, KeyError):
        return None


def read_order(line: bytes) -> Order:
    """The order of a line that `Order.line` made."""
    row = json.loads(line)
    chains = tuple(map(tuple, row["chains"]))
    return Order(**{**row, "ids": tuple(row["ids"]), "chains": chains, "wanted": tuple(row["wanted"])})


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
