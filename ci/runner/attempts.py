"""The journals of a host's shards, one an attempt, as the supervisor writes and guards them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ci.core.errors import CommandError
from ci.record import events
from ci.record.events import JournalEvent
from ci.record.journal import UNWRITABLE, JournalWriter
from ci.runner.guard import MOST_GUARDED, put_back
from ci.runner.link import Attempt, new_attempt
from ci.runner.resume import cannot_go_on
from ci.runner.watch import read_file
from test_selection.plan import Shard

_DESCRIPTORS = Path("/proc/self/fd")
# Ids of a shard by what is to be said of them.
Doubts = Mapping[int, Mapping[str, Sequence[str]]]


class Attempts:
    """The attempts at a host's shards."""

    def __init__(
        self,
        run_dir: Path,
        *,
        doubts: Doubts,
        refused: Callable[[int, JournalEvent], None],
        after: int = 0,
    ) -> None:
        """Begin with none.

        Args:
            run_dir: the run's folder.
            doubts: of a run that is resumed, by shard and by reason the ids that may have run before.
            refused: hears, with the shard's index, what could not be written.
            after: the number after which they are counted.
        """
        self._run_dir, self._doubts, self._refused = run_dir, dict(doubts), refused
        self._after = after
        self._last: dict[int, Attempt] = {}
        self._guarded: dict[Path, int] = {}

    def begin(self, shard: Shard) -> Attempt:
        """The next attempt at a shard.

        Raises:
            SpyreCiError: its files cannot be made.
        """
        with explained(self._run_dir, f"shard {shard.index} cannot be begun"):
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
    def journals(self) -> list[Path]:
        """The journal of the last attempt at each shard."""
        return [attempt.journal for attempt in self._last.values()]

    def write(self, attempt: Attempt, event: JournalEvent) -> None:
        """Write what a worker that is gone can no longer write, or that nobody told it."""
        try:
            with contextlib.closing(JournalWriter(self._where(attempt.journal), time.time)) as journal:
                journal.write(event)
                journal.sync(now=isinstance(event, events.ShardEnd))
        except OSError as error:
            # A full disk, say: what no journal tells of is a hole in the account, and reddens the run.
            message = f"{attempt.journal}: {error}"
            self._refused(attempt.shard, events.WorkerLost(message=message))

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
                self._refused(-1, events.WorkerLost(message=f"{path}: {error}"))
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
