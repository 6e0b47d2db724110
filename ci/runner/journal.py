"""The journal: append-only events of one attempt at one shard, a JSON object a line.

Events, by their key `e` (`t` is seconds since the epoch):

- `shard_start`: shard, attempt, card, host, pid, planned, fingerprint, run
- `group_start`: file, tests; `group_ready`: file, setup_s (seconds of import and collection)
- `start`: id, log (where in the shard's log its output begins, in bytes)
- `end`: id, outcome, seconds, message, detail
- `crash`: id, cause, message, detail, seconds: a test ended with its process; the cause is signal, hang,
  oom, exit or hardware
- `worker_lost`: id or null, message: the worker went, from outside; the running test is infrastructure
- `piece`: file, tests (how many), why (plan, stolen, retry), of (the shard they are planned for), attempt
- `not_run`: ids, message: planned and not run, with the reason
- `elsewhere`: ids, host: planned for this shard and claimed by another host
- `file_error`: file, message, detail: a file could not be imported where it was to be run
- `shard_end`: status (done, interrupted)

Outcomes are passed, failed, skipped, xfailed, xpassed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from test_selection.errors import MissingInputError

Event = dict[str, Any]
OUTCOMES = ("passed", "failed", "skipped", "xfailed", "xpassed")


class JournalWriter:
    """Appends events, each with one `write` of a whole line, so that processes may share the file."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self.path = path
        self._clock = clock
        self._descriptor = _open(path)

    def write(self, event: str, **content: Any) -> None:
        """Append one event; it is with the operating system when this returns."""
        line = json.dumps({"t": round(self._clock(), 3), "e": event, **content}, separators=(",", ":"))
        # A process that was killed while it wrote leaves half a line; that must not cost this one.
        torn = self.size > 0 and os.pread(self._descriptor, 1, self.size - 1) != b"\n"
        _write(self._descriptor, (b"\n" if torn else b"") + line.encode() + b"\n")

    @property
    def size(self) -> int:
        """Bytes written so far, by whichever process."""
        return os.fstat(self._descriptor).st_size

    def read(self, start: int) -> bytes:
        """What was written from byte `start` on, also when the file was deleted meanwhile."""
        return os.pread(self._descriptor, max(0, self.size - start), start)

    def restore(self) -> None:
        """Where a test deleted the file, put it back with all that was written."""
        if self.path.exists():
            return
        data, descriptor = self.read(0), _open(self.path)
        _write(descriptor, data)
        os.dup2(descriptor, self._descriptor, inheritable=False)
        os.close(descriptor)

    def close(self) -> None:
        """Close the file; what was written stays."""
        os.close(self._descriptor)


def _open(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """What one journal file says: which shard and attempt it is of, its events, and lines that were torn."""

    path: Path
    shard: int
    attempt: int
    events: list[Event] = field(default_factory=list)
    torn: int = 0


def journal_path(run_dir: Path, shard: int, attempt: int) -> Path:
    """`journal/<shard>-<attempt>.jsonl` of a run folder."""
    return run_dir / "journal" / f"{shard}-{attempt}.jsonl"


def next_attempt(run_dir: Path, shard: int) -> int:
    """The first attempt number, from 1, that has no journal yet."""
    taken = [journal.stem.partition("-")[2] for journal in (run_dir / "journal").glob(f"{shard}-*.jsonl")]
    return max((int(number) for number in taken if number.isdecimal()), default=0) + 1


def read_journals(run_dir: Path) -> list[Journal]:
    """Every journal of a run folder, by shard and attempt; torn lines are counted, never fatal.

    Raises:
        MissingInputError: the folder has no `journal` folder.
    """
    folder = run_dir / "journal"
    if not folder.is_dir():
        raise MissingInputError(
            "there is no journal folder", where=folder, remedy="run the plan first with `spyre-ci run`"
        )
    found = []
    for path in folder.glob("*-*.jsonl"):
        shard, _, attempt = path.stem.partition("-")
        if shard.isdecimal() and attempt.isdecimal():
            found.append(read_journal(path, int(shard), int(attempt)))
    return sorted(found, key=lambda journal: (journal.shard, journal.attempt))


def read_journal(path: Path, shard: int, attempt: int) -> Journal:
    """One journal; a line that is not whole (a process died while it wrote) is skipped and counted."""
    events: list[Event] = []
    torn = 0
    with path.open("rb") as stream:
        for line in stream:
            try:
                event = json.loads(line)
            except ValueError:
                torn += 1
                continue
            if isinstance(event, dict) and isinstance(event.get("e"), str):
                events.append(event)
            else:
                torn += 1
    return Journal(path=path, shard=shard, attempt=attempt, events=events, torn=torn)
