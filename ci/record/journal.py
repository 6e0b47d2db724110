"""The journal: append-only events (`ci.record.events`) of one attempt at one shard, a JSON object a line.

Each line ends with its checksum (`ci.record.journal_line`). A line is with the operating system when `write`
returns, so no process that dies loses it; `sync` brings lines to the disk, where a machine that goes down
finds them again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ci.record.events import JournalEvent
from ci.record.excerpts import Excerpts
from ci.record.journal_line import Lines, line_of
from test_selection.errors import MissingInputError
from test_selection.files import open_regular

# What pytest's message of a strict xfail that passed begins with.
XPASS_STRICT = "[XPASS(strict)]"
# What the message of a test begins with that took its container down with everything in it.
TOOK_ALL = "its container ended with all its processes"
OUTCOMES = ("passed", "failed", "skipped", "xfailed", "xpassed")
# A machine that goes down takes about so much of a journal with it.
SYNC_S = 1.0
# What no test can be blamed for: a disk that is full, broken, read-only or gone, a quota, a limit.
UNWRITABLE = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ESTALE, errno.ENODEV, errno.EFBIG}
)
# More than one job makes at a shard.
ATTEMPTS_OF_A_JOB = 100
# sysexits.h's input/output error: the exit code of a process that can no longer write its journal.
EXIT_UNWRITABLE = 74
# Less than this is no space: what a test could not write need not be as small as a line.
LEAST_SPACE_BYTES = 64 << 10
# No line is longer; what is, is read as several torn ones.
MAX_LINE = 64 << 20


class JournalWriter:
    """Appends events, each with one `write` of a whole line, so that processes may share the file."""

    def __init__(self, path: Path, clock: Callable[[], float], *, survivor: bool = True) -> None:
        """Open a journal.

        Args:
            path: the file.
            clock: seconds since the epoch.
            survivor: whether other writers may die while this one lives, and leave half a line.

        Raises:
            OSError: it cannot be made.
        """
        self.path = path
        self._clock, self._survivor = clock, survivor
        self._descriptor = _open(path)
        self._synced, self._synced_at = self.size, time.monotonic()
        self._torn = self._ends_torn()

    def write(self, event: JournalEvent) -> None:
        """Append one event, with the time; it is with the operating system when this returns.

        Raises:
            OSError: it could not be written, or only in part, which readers take for a torn line.
        """
        event.t = round(self._clock(), 3)
        line = line_of(event)
        # A process that was killed while it wrote leaves half a line; that must not cost this one.
        if self._torn or (self._survivor and self._ends_torn()):
            line = b"\n" + line
        self._torn = True  # should this one be cut
        try:
            _write(self._descriptor, line)
        except OSError as error:
            error.filename = str(self.path)
            self._torn = self._ends_torn()
            raise
        self._torn = False

    def _ends_torn(self) -> bool:
        size = self.size
        return size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"

    def sync(self, *, now: bool = False) -> None:
        """Bring what was written, by whichever process, to the disk: at most once a second, or `now`.

        Raises:
            OSError: the disk refuses it.
        """
        size, moment = self.size, time.monotonic()
        if size == self._synced or (not now and moment - self._synced_at < SYNC_S):
            return
        with _named(self.path):
            bring_to_disk(self._descriptor)
        # From the end, so that a slow disk is not kept busy with nothing else.
        self._synced, self._synced_at = size, time.monotonic()

    @property
    def size(self) -> int:
        """Bytes written so far, by whichever process."""
        return os.fstat(self._descriptor).st_size

    @property
    def full(self) -> bool:
        """Whether there is no space left where the journal is."""
        try:
            left = os.fstatvfs(self._descriptor)
        except OSError:  # a test closed it, which is that test's own business
            return False
        blocks = left.f_bfree if os.geteuid() == 0 else left.f_bavail
        # A file system that does not tell its size, such as some of FUSE's, is not full.
        return left.f_blocks > 0 and blocks * left.f_frsize < LEAST_SPACE_BYTES

    def fileno(self) -> int:
        """The descriptor of the file."""
        return self._descriptor

    def read(self, start: int) -> bytes:
        """What was written from byte `start` on, also when the file was deleted meanwhile."""
        return os.pread(self._descriptor, max(0, self.size - start), start)

    def restore(self) -> bool:
        """Where a test deleted the file, put it back with all that was written; whether that was so.

        Other processes that have the deleted file open go on writing to that one.
        """
        if self.path.exists():
            return False
        data, descriptor = self.read(0), _open(self.path)
        with _named(self.path):
            _write(descriptor, data)
        os.dup2(descriptor, self._descriptor, inheritable=False)
        os.close(descriptor)
        self._synced = 0
        return True

    def close(self) -> None:
        """Close the file; what was written stays."""
        os.close(self._descriptor)


def _open(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, flags)
    descriptor = os.open(path, flags | os.O_CREAT, 0o644)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        bring_to_disk(folder, whole=True)  # else the machine's end may take the file with its name
    finally:
        os.close(folder)
    return descriptor


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def bring_to_disk(descriptor: int, *, whole: bool = False) -> None:
    """Have what was written be there after a power cut, too.

    Args:
        descriptor: of a file or folder.
        whole: its times as well; a folder's names need that.

    Raises:
        OSError: the disk refuses it.
    """
    try:
        if hasattr(fcntl, "F_FULLFSYNC"):
            _to_the_disk_itself(descriptor)
        elif whole or not hasattr(os, "fdatasync"):
            os.fsync(descriptor)
        else:
            os.fdatasync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:  # what cannot be synced, such as a pipe
            raise


def _to_the_disk_itself(descriptor: int) -> None:
    """Where macOS's fsync(2) ends at the disk's own memory, which a power cut empties, as its manual says."""
    try:
        fcntl.fcntl(descriptor, getattr(fcntl, "F_FULLFSYNC"))  # noqa: B009  # only there it has it
    except OSError as error:
        if error.errno in {errno.EIO, errno.ENOSPC}:
            raise
        os.fsync(descriptor)  # a disk over the network, say


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """A disk that filled while writing does not say where."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


@dataclass(slots=True, kw_only=True)
class Journal(Lines):
    """What one journal file says: which shard and attempt it is of, its events, and what was lost of it.

    Attributes:
        path: the file.
        shard: the shard's index.
        attempt: from 1.
        unreadable: which file it is and why nothing of it can be read; empty where it can.
    """

    path: Path
    shard: int
    attempt: int
    unreadable: str = ""


def journal_path(run_dir: Path, shard: int, attempt: int) -> Path:
    """`journal/<shard>-<attempt>.jsonl` of a run folder."""
    return run_dir / "journal" / f"{shard}-{attempt}.jsonl"


def attempts_before(run_attempt: int) -> int:
    """The number after which a CI's job counts its attempts at shards, when it is run for the nth time.

    What an earlier one handed over lies beside them in one folder, and no journal takes another's name.
    """
    return (run_attempt - 1) * ATTEMPTS_OF_A_JOB


def run_attempt_of(attempt: int) -> int:
    """The way back: the how manieth time the CI ran the job that made this attempt, from 1."""
    return (attempt - 1) // ATTEMPTS_OF_A_JOB + 1


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
    return list(each_journal(run_dir))


def each_journal(run_dir: Path) -> Iterator[Journal]:
    """Read the journals of a run folder one by one, by shard and attempt; none where nothing ran yet.

    Their texts are cut so that all together have a bounded length (`ci.record.excerpts`).
    """
    found = []
    for path in (run_dir / "journal").glob("*-*.jsonl"):
        shard, _, attempt = path.stem.partition("-")
        if shard.isdecimal() and attempt.isdecimal():
            found.append((int(shard), int(attempt), path))
    excerpts = Excerpts()
    for index, number, path in sorted(found):
        yield read_journal(path, index, number, excerpts)


def gathered_journals(run_dir: Path) -> list[Journal]:
    """As `read_journals`; none where nothing was gathered, as nothing ran yet."""
    return list(each_journal(run_dir))


def read_journal(path: Path, shard: int, attempt: int, excerpts: Excerpts | None = None) -> Journal:
    """One journal, its texts cut by `excerpts`.

    A line that is not as it was written is counted, and never used as evidence.
    """
    cut = (excerpts or Excerpts()).cut
    where = f"{path.parent.name}/{path.name}"
    journal = Journal(path=path, shard=shard, attempt=attempt)
    try:
        with open_regular(path) as stream:
            for line in iter(partial(stream.readline, MAX_LINE), b""):
                journal.take(line, lambda event: cut(event, where))
    except OSError as error:
        return Journal(path=path, shard=shard, attempt=attempt, unreadable=f"{where}: {error.strerror}")
    return journal
