"""Leases: one file lock a card in a folder of the host, so that runs share its cards without collisions.

The kernel keeps the locks (flock), so nobody renews one and a holder that dies frees its cards. The
descriptor is handed on to the card's worker: a card whose supervisor was killed is free when its worker
has ended, too, and not before. What a lease file says is for people and for messages.

A lock on a file that was deleted keeps nobody out: who comes later locks a file of the same name. So each
run looks every second whether its files are still there (`Leases.keep`) and locks new ones where not, and
one that sees the folder deleted makes it again and takes no card for some seconds, in which the others lock
theirs. Two cases are not safe: a run that begins in the second after the folder was deleted cannot know
that there was one, and one that is stopped does not look. Then two runs may have one card, and the first
says so as soon as it looks. A lease that was locked anew is not the worker's, too: where the supervisor is
killed then, the card is free though its worker may live for a moment.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import getpass
import json
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec

from ci.core.errors import DiskFullError, FileSystemError
from ci.core.locks import take
from ci.core.other_processes import ProcessIdentity, identify_process, read_identity

# Both are there for every user of a host; a folder below a user's own TMPDIR would not be the same for all.
_LOCKS = Path("/run/lock")
_TEMPORARY = Path("/tmp")  # noqa: S108  # a folder of locks that every user may take, made with care below
FOLDER_NAME = "spyre-ci-cards"
_EVERYBODY = 0o777
_LEASE_BYTES = 4096
# The year 9999 less a day, which every time zone has; process ids have 22 bits on Linux, 17 on macOS.
_MAX_SECONDS, _MAX_PID = 253_402_214_400.0, 1 << 31
# So long the runs of a host have to lock their cards anew where the folder was deleted.
SETTLE_S = 5.0
_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def shared_folder(locks: Path = _LOCKS, temporary: Path = _TEMPORARY) -> Path:
    """The folder that all users of this host share where the settings name none."""
    try:
        mode = locks.stat().st_mode
        everybodys = stat.S_ISDIR(mode) and bool(mode & stat.S_IWOTH)
    except OSError:
        everybodys = False
    return (locks if everybodys else temporary) / FOLDER_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who says to hold a card.

    Attributes:
        pid: the supervisor's process id.
        run: the run id.
        user: whose process it is.
        since: seconds since the epoch.
        where: where its process id means that process; None where the lease does not say.
    """

    # Anybody may write the file: what is no process or no time would end whoever tells people of it.
    pid: Annotated[int, msgspec.Meta(gt=0, lt=_MAX_PID)]
    run: str
    user: str
    since: Annotated[float, msgspec.Meta(ge=0, lt=_MAX_SECONDS)]
    where: ProcessIdentity | None = None

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        return f"run {self.run} (process {self.pid} of {self.user}) since {since}"


class Leases:
    """The cards of this host that this run holds."""

    def __init__(self, folder: Path, *, run: str, clock: Callable[[], float]) -> None:
        """Make the folder where it is missing.

        Args:
            folder: the same for all runs of this host.
            run: the run id.
            clock: seconds since the epoch.

        Raises:
            FileSystemError: the folder cannot be used.
        """
        self.folder = folder
        self._run, self._clock = run, clock
        self._held: dict[str, int] = {}
        # Locked anew, so that their workers do not hold them.
        self._renewed: set[str] = set()
        self._moved_at: float | None = None
        with _told(folder):
            _make_folder(folder)
            self._identity = _identity(folder)
            if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
                raise PermissionError(13, os.strerror(13), str(folder))

    def take(self, card: str) -> bool:
        """Hold a card from now on, if nobody does, nor may in a folder that was deleted.

        Raises:
            FileSystemError: its lease file cannot be used.
        """
        if card in self._held:
            return False
        with _told(self.folder):
            self._see_folder()
        if self._moved_at is not None and abs(self._clock() - self._moved_at) < SETTLE_S:
            return False
        return self._lock(card)

    def _lock(self, card: str) -> bool:
        path = self._path(card)
        with _told(path):
            descriptor = lock_file(path)
            if descriptor is None:
                return False
            self._held[card] = descriptor
            holder = Holder(
                pid=os.getpid(),
                run=self._run,
                user=_user(),
                since=round(self._clock(), 3),
                where=identify_process(os.getpid()),
            )
            with contextlib.suppress(OSError):  # a full disk: the lock holds whatever the file says
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, json.dumps(asdict(holder)).encode() + b"\n", 0)
        return True

    def keep(self) -> list[str]:
        """Lock the cards of this run anew whose lease files were deleted; what people should know of it.

        What cannot be done now is for the next call.
        """
        with contextlib.suppress(OSError):
            self._see_folder()
        said = []
        if self._moved_at is not None:
            said.append(
                f"the folder of leases {self.folder} was deleted and is made again; "
                f"no card is taken there for {SETTLE_S:g} s, while other runs lock theirs again"
            )
        for card, descriptor in list(self._held.items()):
            if _names(self._path(card), descriptor):
                continue
            with contextlib.suppress(FileSystemError):
                if self._lock(card):
                    os.close(descriptor)
                    self._renewed.add(card)
                elif (holder := self.holder(card)) is not None:
                    said.append(
                        f"card {card} is used by two runs: its lease was deleted, and {holder} has it"
                    )
        return said

    def _see_folder(self) -> None:
        """Notice that the folder is not the one it was, and make it where it is gone."""
        if (now := _identity(self.folder)) == self._identity and now is not None:
            return
        _make_folder(self.folder)
        self._identity, self._moved_at = _identity(self.folder), self._clock()

    def release(self, card: str) -> None:
        """Let go of a card; of one that is not held, nothing happens."""
        if (descriptor := self._held.pop(card, None)) is None:
            return
        self._renewed.discard(card)
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
        # Not by closing alone: what a test started and left may have the descriptor, too.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)

    def abandon(self, card: str) -> None:
        """Close the lease and leave the lock to who has the descriptor, too, and cannot be ended.

        One that was locked anew nobody else has: it stays open until this process ends.
        """
        if (descriptor := self._held.pop(card, None)) is not None and card not in self._renewed:
            os.close(descriptor)

    def release_all(self) -> None:
        """Let go of every card."""
        for card in list(self._held):
            self.release(card)

    def descriptor(self, card: str) -> int | None:
        """The descriptor that holds a card, to be handed on to its worker."""
        return self._held.get(card)

    def is_taken(self, card: str) -> bool:
        """Whether another run has a card now; False where that cannot be found out.

        Who asks for the card in this very moment is told that it is taken, and asks again.
        """
        if card in self._held:
            return False
        try:
            descriptor = os.open(self._path(card), _FLAGS)
        except OSError:
            return False
        try:
            return not take(descriptor, fcntl.LOCK_SH)
        except OSError:
            return False
        finally:
            os.close(descriptor)

    def holder(self, card: str) -> Holder | None:
        """Who holds a card as far as its lease file says; None where it does not."""
        try:
            # By Python's own JSON: a user's name may hold bytes that are no UTF-8.
            row = json.loads(_start_of(self._path(card)))
            return msgspec.convert({**row, "where": read_identity(row.get("where"))}, Holder)
        except (OSError, ValueError, TypeError, RecursionError):
            return None

    def _path(self, card: str) -> Path:
        return self.folder / f"{card}.lease"


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise DiskFullError(
                f"leases of cards cannot be kept here: {error.strerror}",
                where=path,
                remedy="free space and inodes there (df, df -i), or name another folder "
                "for all who run tests on this host with run.leases",
            ) from error
        raise FileSystemError(
            f"leases of cards cannot be kept here: {error.strerror or error}",
            where=path,
            remedy="make it readable and writable for all who run tests on this host, or name another folder "
            "for all of them with run.leases",
        ) from error


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir()
    except FileExistsError:
        if not folder.is_dir():
            raise
        return
    # Not sticky: a card's file of strikes is replaced by whoever holds the card, whosever it was.
    folder.chmod(_EVERYBODY)


def _identity(folder: Path) -> tuple[int, int] | None:
    """What tells a folder from another of its name; None where there is none."""
    try:
        found = folder.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _names(path: Path, descriptor: int) -> bool:
    """Whether an open file is the one of this name; so it is where nobody can say."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
    except OSError:
        return True


def lock_file(path: Path) -> int | None:
    """The descriptor of the locked file, which is made where it is missing; None where another has the lock.

    Raises:
        OSError: it cannot be made or locked.
    """
    while True:
        descriptor = _open(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            os.close(descriptor)
            raise
        # Somebody may have cleaned the folder between the two calls: a lock nobody else can see is none.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)


def _open(path: Path) -> int:
    while True:
        # Made and opened apart: Linux refuses to create what is another user's already (protected_regular).
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, _FLAGS)
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666)
            os.fchmod(descriptor, 0o666)
            return descriptor


def _start_of(path: Path) -> bytes:
    """What a lease file says; a pipe in its place is not waited for, and a link not followed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return os.read(descriptor, _LEASE_BYTES)
    finally:
        os.close(descriptor)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        return str(os.getuid())
