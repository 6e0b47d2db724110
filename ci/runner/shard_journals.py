"""The journals of a host's shards, one an attempt, and other files of a run that tests may delete.

The supervisor writes what a worker cannot, and keeps files open so that they can be put back.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ci.core.errors import CommandError
from ci.record import events
from ci.record.events import JournalEvent
from ci.record.journal import UNWRITABLE, JournalWriter, bring_to_disk, journal_path, next_attempt
from ci.runner.channel import Attempt
from ci.runner.resume import cannot_go_on
from ci.runner.watchdog import read_file
from test_selection.plan import Shard

CHUNK = 1 << 20
# More files than this are not guarded: open ones are scarce.
MOST_GUARDED = 256
SHOWN = 5


@contextlib.contextmanager
def guarded(run_dir: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Put back the files of a run's folder that are deleted while the block lasts.

    A test that deletes the folder of its run would else take the plan and earlier journals with it, and
    nothing could be reported of what ran. Files that are made in the block are not guarded.

    Args:
        run_dir: the run's folder.
        say: told which were put back, or why they were not.
    """
    with contextlib.ExitStack() as stack:
        files = itertools.islice(_files(run_dir), MOST_GUARDED)
        held = {path: stack.enter_context(path.open("rb")) for path in files}
        try:
            yield
        finally:
            for line in _put_all_back(run_dir, {path: stream.fileno() for path, stream in held.items()}):
                say(line)


def _files(run_dir: Path) -> Iterator[Path]:
    # Not locks, whose names begin with a dot: who holds one has it open, and a new one would be another.
    for folder in (run_dir, run_dir / "journal"):
        if folder.is_dir():
            found = (path for path in sorted(folder.iterdir()) if not path.name.startswith("."))
            yield from (path for path in found if path.is_file())


def _put_all_back(run_dir: Path, held: Mapping[Path, int]) -> Iterator[str]:
    missing = [path for path in held if not path.exists()]
    try:
        for path in missing:
            put_back(path, held[path])
    except OSError as error:
        yield f"a test deleted {len(missing)} files of {run_dir}, which cannot be put back: {error}"
    else:
        if missing:
            names = ", ".join(path.name for path in missing[:SHOWN]) + (", …" if missing[SHOWN:] else "")
            yield f"a test deleted files of {run_dir}; they were put back: {names}"


def put_back(path: Path, descriptor: int) -> None:
    """Write a deleted file anew from what is still open of it; where the name is taken, leave it alone.

    Args:
        path: where it was.
        descriptor: open for reading.

    Raises:
        OSError: it cannot be written.
    """
    if path.exists() or not os.fstat(descriptor).st_size:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as stream:
        offset = 0
        while data := os.pread(descriptor, CHUNK, offset):
            stream.write(data)
            offset += len(data)
        stream.flush()
        os.fsync(stream.fileno())


_DESCRIPTORS = Path("/proc/self/fd")
# Ids of a shard by what is to be said of them.
Doubts = Mapping[int, Mapping[str, Sequence[str]]]


def new_attempt(run_dir: Path, shard: int, planned: int, *, after: int = 0) -> Attempt:
    """The next attempt at a shard; its folders are there when this returns, and its journal has its name.

    Raises:
        OSError: they cannot be made.
    """
    for name in ("journal", "logs"):
        (run_dir / name).mkdir(parents=True, exist_ok=True)
    while True:
        number = max(next_attempt(run_dir, shard), after + 1)
        journal = journal_path(run_dir, shard, number)
        with contextlib.suppress(FileExistsError):
            # Two hosts that share the folder do not share a journal.
            journal.touch(exist_ok=False)
            break
    for folder in (journal.parent, run_dir):
        # Else a power cut may take the journal with its name, and all that is synced to it later.
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            bring_to_disk(descriptor, whole=True)
        finally:
            os.close(descriptor)
    log = run_dir / "logs" / f"{shard}-{number}.log"
    return Attempt(shard=shard, number=number, journal=journal, log=log, planned=planned)


class Attempts:
    """The attempts at a host's shards."""

    def __init__(
        self,
        run_dir: Path,
        *,
        doubts: Doubts,
        listen: Callable[[int, JournalEvent], None],
        after: int = 0,
    ) -> None:
        """Begin with none.

        Args:
            run_dir: the run's folder.
            doubts: of a run that is resumed, by shard and by reason the ids that may have run before.
            listen: hears, with the shard's index, what no worker's journal tells.
            after: the number after which they are counted.
        """
        self._run_dir, self._doubts, self._listen = run_dir, dict(doubts), listen
        self._after = after
        self._last: dict[int, Attempt] = {}
        self._guarded: dict[Path, int] = {}

    def begin(self, shard: Shard) -> Attempt:
        """The next attempt at a shard.

        Raises:
            SpyreCiError: its files cannot be made.
        """
        with explained(self._run_dir, f"shard {shard.index} cannot be started"):
            before = self._last.get(shard.index)
            # A test may have deleted its journal: no other is to have its name.
            after = self._after if before is None else before.number
            attempt = new_attempt(self._run_dir, shard.index, len(shard.ids), after=after)
            self.guard(attempt.journal)
        self._last[shard.index] = attempt
        for message, ids in self._doubts.pop(shard.index, {}).items():
            self.write(attempt, events.Resumed(ids=list(ids), message=message))
        return attempt

    def of(self, shard: Shard) -> Attempt:
        """The last attempt at a shard; a new one where there is none."""
        return self._last.get(shard.index) or self.begin(shard)

    @property
    def begun(self) -> bool:
        """Whether any was."""
        return bool(self._last)

    def write(self, attempt: Attempt, event: JournalEvent) -> None:
        """Write what a worker that is gone can no longer write, or that nobody told it."""
        try:
            with contextlib.closing(JournalWriter(self._where(attempt.journal), time.time)) as journal:
                journal.write(event)
                journal.sync(now=isinstance(event, events.ShardEnd))
        except OSError as error:
            # A full disk, say: what no journal tells of is a hole in the account, and reddens the run.
            message = f"{attempt.journal}: {error}"
            self._listen(attempt.shard, events.WorkerLost(message=message))

    def tell(self, shard: Shard, event: JournalEvent) -> None:
        """Write to a shard's last journal, and have it heard, what no worker's journal will say."""
        self.write(self.of(shard), event)
        self._listen(shard.index, event)

    def _where(self, path: Path) -> Path:
        """The journal, also where a test has deleted it; a new file of its name would be in its way."""
        if not path.exists() and (descriptor := self._guarded.get(path)) is not None:
            still_there = _DESCRIPTORS / str(descriptor)
            if still_there.exists():
                return still_there
            put_back(path, descriptor)  # where there is no /proc, a file has to be opened by its name
        return path

    def close(self) -> None:
        """Put back the journals that a test has deleted since; the worker guards only its own."""
        for path, descriptor in self._guarded.items():
            try:
                put_back(path, descriptor)
            except OSError as error:
                self._listen(-1, events.WorkerLost(message=f"{path}: {error}"))
            finally:
                os.close(descriptor)
        self._guarded.clear()

    def read(self, path: Path, start: int) -> bytes:
        """What a journal holds from byte `start` on, also where a test has deleted it.

        Else a worker that is lost before it has put it back would take what it told with it.
        """
        self.guard(path)
        descriptor = self._guarded.get(path)
        if descriptor is None:
            return read_file(path, start)
        return os.pread(descriptor, max(0, os.fstat(descriptor).st_size - start), start)

    def guard(self, path: Path) -> None:
        """Keep a journal open as it is now, so that it can be put back."""
        before = self._guarded.get(path)
        if before is None and len(self._guarded) >= MOST_GUARDED:
            return
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if before is not None and os.path.samestat(path.stat(), os.fstat(before)):
                return
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            if before is not None and os.fstat(descriptor).st_size < os.fstat(before).st_size:
                os.close(descriptor)  # it is just being put back
                return
            if before is not None:
                os.close(before)
            self._guarded[path] = descriptor


@contextlib.contextmanager
def explained(run_dir: Path, what: str) -> Iterator[None]:
    """Tell an operating system's error in the block as this project's.

    Raises:
        SpyreCiError: `what`, with the reason.
    """
    try:
        yield
    except OSError as error:
        if error.errno in UNWRITABLE:
            raise cannot_go_on(run_dir, error.errno) from error
        raise CommandError(
            f"{what}: {error}", remedy=f"check the space and the rights of {run_dir}"
        ) from error
