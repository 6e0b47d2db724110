"""Who of several runs is next at the cards of a host: a ticket file each, in the order of their numbers.

A run that did not get as many cards as it needs at least draws a ticket, and whoever has a later one, or
none, leaves the cards alone that it waits for. Without that, runs that need one card would take each as it
comes free, for ever, before one that needs two at once; and two that need all would catch some each.

The kernel's lock on a ticket says that its run lives, as with leases; one that asks no more, for what it
waited for is done elsewhere, or it was stopped, is passed after a few seconds.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ci.core.locks import take
from ci.runner.leases import lock_file

SUFFIX = ".ticket"
# Whoever waits asks about once a second.
STALE_S = 15.0
_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """What a run that waits says of itself.

    Attributes:
        run: the run id.
        pid: of its supervisor.
        least: how many cards it needs at once.
        cards: the names of those it could use.
        seen: when it last asked, in seconds since the epoch.
    """

    run: str
    pid: int
    least: int
    cards: frozenset[str]
    seen: float

    def __str__(self) -> str:
        return f"run {self.run} (process {self.pid}), which needs {self.least} at once and came first"


class WaitQueue:
    """The tickets of a host, and this run's place among them; without a folder that works, nobody has one."""

    def __init__(self, folder: Path, *, run: str, clock: Callable[[], float]) -> None:
        """Wait for nothing yet.

        Args:
            folder: the same for all runs of this host; it is there.
            run: the run id.
            clock: seconds since the epoch.
        """
        self._folder, self._run, self._clock = folder, run, clock
        self._mine: tuple[int, int] | None = None

    def ahead(self) -> dict[str, Ticket]:
        """The cards that runs wait for who came before this one, with the first of them."""
        found: dict[str, Ticket] = {}
        with contextlib.suppress(OSError):
            for number, path in self._all():
                if self._mine is not None and number >= self._mine[0]:
                    break
                if (ticket := self._alive(path)) is not None:
                    for card in ticket.cards:
                        found.setdefault(card, ticket)
        return found

    def wait(self, cards: Collection[str], least: int) -> None:
        """Draw a ticket, or say with the one there is that this run still waits.

        Args:
            cards: the names of the cards it could use.
            least: how many it needs at once.
        """
        with contextlib.suppress(OSError):
            if self._mine is None:
                self._mine = self._draw()
            seen = round(self._clock(), 3)
            mine = Ticket(run=self._run, pid=os.getpid(), least=least, cards=frozenset(cards), seen=seen)
            content = msgspec.json.encode(mine) + b"\n"
            os.pwrite(self._mine[1], content, 0)
            os.ftruncate(self._mine[1], len(content))

    def drop(self) -> None:
        """Wait no longer."""
        if self._mine is None:
            return
        (number, descriptor), self._mine = self._mine, None
        with contextlib.suppress(OSError):
            self._path(number).unlink()
        os.close(descriptor)

    def _draw(self) -> tuple[int, int]:
        number = max((number for number, _ in self._all()), default=0)
        while True:
            number += 1
            # Of two that draw the same number, one has it.
            if (descriptor := lock_file(self._path(number))) is not None:
                return number, descriptor

    def _alive(self, path: Path) -> Ticket | None:
        """The ticket of a run that lives and asks; one that is dead is thrown away."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            if take(descriptor):
                # Under the lock: another may have thrown it away, and a third have drawn its number since.
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    path.unlink(missing_ok=True)
                return None
            ticket = _ticket(os.pread(descriptor, _BYTES, 0))
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return ticket if ticket is not None and abs(self._clock() - ticket.seen) <= STALE_S else None

    def _all(self) -> Iterator[tuple[int, Path]]:
        named = ((path.stem, path) for path in self._folder.glob(f"*{SUFFIX}"))
        return iter(sorted((int(stem), path) for stem, path in named if stem.isdecimal() and stem.isascii()))

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}{SUFFIX}"


def _ticket(data: bytes) -> Ticket | None:
    """What a ticket says; None where it is being written, or was by something else."""
    try:
        return msgspec.json.decode(data, type=Ticket)
    except (ValueError, RecursionError):
        return None
