"""The disk space of several things together, files with several names counted right. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ci.retention.things import Thing


@dataclass(slots=True)
class Freed:
    """What the disk gets back while one thing after the other goes.

    A file's space comes back with the last of its names; a name outside all of these keeps it.
    """

    _gone: Counter[tuple[int, int]] = field(default_factory=Counter)

    def take(self, thing: Thing) -> int:
        """Bytes that come back when this goes too."""
        back = thing.own
        for one in thing.shared:
            self._gone[one.key] += one.inside
            if self._gone[one.key] >= one.links:
                back += one.bytes
                self._gone[one.key] = -(1 << 62)  # it comes back once
        return back


def space(things: Iterable[Thing]) -> int:
    """Bytes that would come back if all of these went; what names elsewhere hold is not theirs."""
    freed = Freed()
    return sum(freed.take(one) for one in things)
