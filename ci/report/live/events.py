"""The events of a run for other tools: a JSON object a line, as `events.schema.json` beside this has them.

What is worth having of its peers: as with pytest-reportlog every line stands by itself, is written at once,
and kinds and keys a reader does not know are to be passed over; as with Go's test2json a test that was
planned has an end, whatever happened.

They go to a file, a pipe or standard output, and never at the cost of the run: a thread of its own writes, so
that a reader that is slow holds nobody up. One that is gone, and a disk that is full, end the events and not
the run.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from queue import SimpleQueue
from typing import Any

from ci.core.errors import EXIT_INTERRUPTED, UsageError
from ci.core.text import one_line
from ci.record.verdict import Verdict
from ci.report.live.news import CardLost, Ended, FileBroken, FileEnded, News, Retried, WorkerLost
from ci.report.live.state import State

VERSION = 1
STDOUT = "-"
# What may wait for a slow reader, in characters of JSON (ASCII); later events are counted, not kept.
MAX_WAITING = 8 << 20
FLUSH_S = 5.0
Row = dict[str, Any]
# The kinds of news whose keys are those of their events.
_KINDS = {Retried: "retry", FileBroken: "file_error", WorkerLost: "worker_lost", CardLost: "card_lost"}


def run_start(state: State, *, run: str, fingerprint: str) -> Row:
    """The first event.

    Args:
        state: of the run.
        run: the readable run id.
        fingerprint: of the plan.
    """
    return {
        "event": "run_start",
        "run": run,
        "fingerprint": fingerprint,
        "planned": state.planned,
        "shards": state.shards,
        "cards": list(state.cards),
    }


def run_end(counts: Mapping[Verdict, int], exit_code: int) -> Row:
    """The last event.

    Args:
        counts: how many planned tests came to each verdict.
        exit_code: what the command ends with.
    """
    every = {verdict.value: counts.get(verdict, 0) for verdict in Verdict}
    return {"event": "run_end", "counts": every, "exit": exit_code}


def row(news: News) -> Row:
    """One piece of news."""
    match news:
        case Ended():
            return _test(news)
        case FileEnded():
            tally = news.tally
            counts = {verdict.value: tally.counts[verdict] for verdict in Verdict if tally.counts[verdict]}
            return {
                "event": "file_end",
                "file": tally.file,
                "counts": counts,
                "seconds": round(tally.seconds, 3),
                "cards": list(tally.cards),
            }
        case _:
            return {"event": _KINDS[type(news)], **asdict(news)}


def _test(told: Ended) -> Row:
    found: Row = {
        "event": "test",
        "id": told.id,
        "file": told.file,
        "outcome": told.outcome.value,
        "verdict": told.verdict.value,
        "seconds": round(told.seconds, 4),
        "card": told.card or None,
        "attempt": told.attempt,
    }
    return found | {key: said for key in ("message", "cause") if (said := getattr(told, key))}


class Sink:
    """Takes events and hands them on in their order."""

    def __init__(self, descriptor: int, clock: Callable[[], float], *, room: int = MAX_WAITING) -> None:
        """Begin to write.

        Args:
            descriptor: where to; closed by `close`.
            clock: seconds since the epoch.
            room: characters that may wait.
        """
        self._descriptor, self._clock, self._room = descriptor, clock, room
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._dropped = self._missed = 0
        # Characters: the one is counted by who writes events, the other by the thread.
        self._put = self._taken = 0
        self._begun = False
        self._failure: OSError | None = None
        self._thread = threading.Thread(target=self._work, name="events", daemon=True)
        self._thread.start()

    def write(self, event: dict[str, Any]) -> None:
        """Hand an event on, or count it where there is no room for it."""
        if self._failure is not None:
            return
        ends = event["event"] == "run_end"
        self._begun = (self._begun or event["event"] == "run_start") and not ends
        line = encode(event, self._clock())
        # Who follows knows how it ended, whatever it has missed before.
        if self._put - self._taken + len(line) > self._room and not ends:
            self._dropped += 1
            return
        self._tell_gap()
        self._append(line)

    def fail(self, exit_code: int | None, message: str) -> None:
        """A run that has begun ends with an error, and with no counts."""
        if self._begun:
            self.write({"event": "run_end", "counts": None, "exit": exit_code, "message": one_line(message)})

    def close(self) -> str:
        """End; waits some seconds for a slow reader.

        Returns:
            Why events are missing; empty where none are.
        """
        self._tell_gap()
        self._lines.put(None)
        self._thread.join(FLUSH_S)
        if self._failure is not None:
            gone = isinstance(self._failure, BrokenPipeError)
            said = "no reader is left" if gone else str(self._failure.strerror or self._failure)
            return f"events end early: {said}"
        if self._thread.is_alive():
            return f"events end early: their reader took none for {FLUSH_S:g} s"
        os.close(self._descriptor)
        return f"{self._missed:,} events were dropped: their reader is slow" if self._missed else ""

    def _tell_gap(self) -> None:
        if self._dropped:
            self._append(encode({"event": "gap", "dropped": self._dropped}, self._clock()))
            self._missed += self._dropped
            self._dropped = 0

    def _append(self, line: str) -> None:
        self._put += len(line)
        self._lines.put(line)

    def _work(self) -> None:
        try:
            for line in iter(self._lines.get, None):
                content = line.encode("ascii")
                while content:
                    content = content[os.write(self._descriptor, content) :]
                self._taken += len(line)
        except OSError as error:
            self._failure = error


def encode(event: dict[str, Any], now: float) -> str:
    r"""An event as its line, in ASCII.

    `##[` is written as `#\u0023[`, which JSON reads as the same: in a log of GitHub it would be a command.
    """
    text = json.dumps({"v": VERSION, "time": round(now, 3), **event}, separators=(",", ":"))
    return text.replace("##[", "#\\u0023[") + "\n"


@contextlib.contextmanager
def open_sink(
    where: str | None, clock: Callable[[], float], say: Callable[[str], None]
) -> Iterator[Sink | None]:
    """The sink `--events` names, for as long as the block runs; None where it names none.

    Args:
        where: a path, or `-` for standard output.
        clock: seconds since the epoch.
        say: is told where events were lost.

    Raises:
        UsageError: the name is empty, or no process reads the pipe.
        OSError: it cannot be opened.
    """
    if where is None:
        yield None
        return
    sink = Sink(open_descriptor(where), clock)
    try:
        yield sink
    except BaseException as error:
        # Whoever was told of a beginning is told of the end.
        code = getattr(error, "exit_code", EXIT_INTERRUPTED if isinstance(error, KeyboardInterrupt) else None)
        sink.fail(code, str(error))
        raise
    finally:
        if said := sink.close():
            say(said)


def open_descriptor(where: str) -> int:
    """Open what `--events` names; a file begins anew.

    Raises:
        UsageError: the name is empty, or no process reads the pipe.
        OSError: it cannot be opened.
    """
    if not where:
        raise UsageError("--events is empty", remedy="name a file, a pipe, or `-` for standard output")
    if where == STDOUT:
        return os.dup(1)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        # A pipe that nobody reads would else hold the run up before it began.
        descriptor = os.open(where, flags | os.O_NONBLOCK, 0o644)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise UsageError(
                f"no process reads the pipe {where}", remedy="start its reader first, then the run"
            ) from None
        raise
    os.set_blocking(descriptor, True)
    return descriptor
