"""Which claimed pieces have an outcome for every test, by what the journals say once they are on the disk.

Other hosts are told of a piece that is done, and never run it again: so it is done when nothing short of a
broken disk can lose its outcomes, and a worker's word for it, or a test that went without one, is not enough.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ci.record.journal import SYNC_S, bring_to_disk
from ci.record.run_state import outcomes_in
from ci.runner.claims.heartbeat import Key


@dataclass(slots=True)
class _Read:
    """How far a journal was read.

    Attributes:
        start: bytes that were read.
        new: whether more may have been written since.
    """

    start: int = 0
    new: bool = True


class Outcomes:
    """The claimed pieces that wait for outcomes, and the journals these are written to."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin without anything.

        Args:
            clock: seconds that never go back.
        """
        self._clock = clock
        self._next = 0.0
        self._journals: dict[Path, _Read] = {}
        self._waits: dict[Key, set[str]] = {}
        self._key: dict[str, Key] = {}

    def claimed(self, key: Key, ids: Iterable[str]) -> None:
        """A piece with these tests is run here."""
        self._waits[key] = set(ids)
        self._key.update(dict.fromkeys(self._waits[key], key))

    def wrote(self, journal: Path) -> None:
        """A journal may tell of more outcomes now."""
        self._journals.setdefault(journal, _Read()).new = True

    def settled(self, *, now: bool = False) -> list[Key]:
        """The pieces that have got the last of their outcomes; looks at most once a second, or `now`."""
        if not now and self._clock() < self._next:
            return []
        found = [key for path, read in self._journals.items() if read.new for key in self._settle(path, read)]
        # From the end, so that a slow disk is not kept busy with nothing else.
        self._next = self._clock() + SYNC_S
        return found

    @property
    def current(self) -> bool:
        """Whether all that was written was seen and is on the disk."""
        return not any(read.new for read in self._journals.values())

    def _settle(self, path: Path, read: _Read) -> list[Key]:
        try:
            with path.open("rb") as stream:
                if os.fstat(stream.fileno()).st_size < read.start:
                    read.start = 0  # a test cut it, or it was put back
                stream.seek(read.start)
                whole, newline, _ = stream.read().rpartition(b"\n")
                bring_to_disk(stream.fileno())
        except OSError:
            return []  # who writes it ends the run for that; until then nothing of it is told
        read.start += len(whole) + len(newline)
        read.new = False
        return list(filter(None, map(self._strike_off, outcomes_in(whole.split(b"\n")))))

    def _strike_off(self, name: str) -> Key | None:
        """Note an outcome; the piece, where it was the last one it waited for."""
        key = self._key.pop(name, None)
        if key is None:
            return None
        self._waits[key].discard(name)
        if self._waits[key]:
            return None
        del self._waits[key]
        return key
