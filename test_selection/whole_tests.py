"""A lower bound where tests are long: what whole tests fill of a shard, beside the set-ups of its parts.

A shard of p parts pays the p least set-ups at least, and holds a choice of whole tests in what they leave; a
file of D seconds has no fewer parts than D over what one shard can hold of it. The fewest shards over all
mixtures of such choices is the linear program of Gilmore and Gomory (Operations Research 9, 1961), with one
row more for the parts.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from test_selection.bound import ROUNDING
from test_selection.linear import Column, cover
from test_selection.loads import FileLoad

# Lengths are told apart in so many classes, and the looks at the room of a shard are so many for all.
MAX_CLASSES = 14
LOOKS = 24_000
# Where this many of the longest test fit, what whole tests leave free is too little to matter.
MANY = 200
# So many parts of files on one shard are told apart.
MAX_PARTS = 400


class WholeTests:
    """Tests by length, rounded down to classes; and whether shards within a limit hold them all.

    Attributes:
        lengths: seconds of each class, ascending.
        counts: how many tests each class has.
    """

    def __init__(self, loads: Sequence[FileLoad], shards: int) -> None:
        self.loads = loads
        self.shards = shards
        self.setups = [0.0, *accumulate(sorted(load.setup_s for load in loads)[:MAX_PARTS])]
        self.longest = [0.0, *accumulate(sorted((load.total_s for load in loads), reverse=True)[:MAX_PARTS])]
        found = Counter(one for load in loads for one in load.seconds if one > 0)
        self.lengths, self.counts = _classes(sorted(found.items()))
        self.shortest = min((load.seconds[-1] for load in loads), default=0.0)
        self.held = [
            Counter(bisect_right(self.lengths, one) - 1 for one in load.seconds if one > 0) for load in loads
        ]

    def too_many(self, limit: float) -> bool:
        """Whether no split ends within `limit` seconds."""
        if not self.lengths or not ROUNDING < limit <= MANY * self.lengths[-1]:
            return False
        steps = _steps(self.lengths, self.counts, limit)
        scale = steps / limit * (1 + ROUNDING * 10)
        sizes = [int(one * scale) for one in self.lengths]
        parts = self._parts(limit, scale, sizes)
        rooms = self._rooms(limit, scale)
        if parts is None or rooms is None or not rooms:
            # Without a single room not one test has a place.
            return parts is None or rooms is not None
        # What is less than a step counts for nothing.
        rows = [row for row in zip(sizes, self.counts, strict=True) if row[0]]
        return _Mixtures(rows, rooms, parts, self.shards).proved()

    def _parts(self, limit: float, scale: float, sizes: Sequence[int]) -> int | None:
        """The least number of parts of all files; None where one of a file's tests has no room."""
        reached = _reached(sizes, int(limit * (1 + ROUNDING) * scale))
        parts = 0
        for load, held in zip(self.loads, self.held, strict=True):
            fit = fitting(load, limit)
            if not fit:
                return None
            least = math.ceil(len(load.seconds) / fit)
            total = sum(sizes[place] * count for place, count in held.items())
            if total:
                room = limit * (1 + ROUNDING) - load.setup_s
                most = reached[int(room * scale)]
                if not most:
                    return None
                least = max(least, math.ceil(load.total_s / room - ROUNDING), -(-total // most))
            parts += least
        return parts

    def _rooms(self, limit: float, scale: float) -> list[int] | None:
        """Steps of tests that 1, 2, … parts hold; None where more parts fit than are looked at."""
        rooms: list[int] = []
        for number in range(1, len(self.setups)):
            room = limit * (1 + ROUNDING) - self.setups[number]
            # Each part has a test.
            if room < self.shortest * number:
                return rooms
            rooms.append(int(min(room, self.longest[number] * (1 + ROUNDING)) * scale))
        return rooms if len(self.setups) > len(self.loads) else None


def _reached(sizes: Sequence[int], top: int) -> list[int]:
    """For each room the most that whole tests fill of it, all lengths as often as one likes."""
    sums = 1
    for size in sizes:
        step = size
        while 0 < step <= top:
            sums |= sums << step
            step *= 2
        sums &= (1 << (top + 1)) - 1
    found, last = [], 0
    for at, digit in enumerate(reversed(f"{sums:b}".zfill(top + 1))):
        last = at if digit == "1" else last
        found.append(last)
    return found


def fitting(load: FileLoad, limit: float) -> int:
    """How many tests of a file, the shortest ones, a shard holds within `limit` seconds."""
    room = limit * (1 + ROUNDING) - load.setup_s
    count = 0
    for total in accumulate(reversed(load.seconds)):
        if total > room:
            break
        count += 1
    return count


def _classes(rows: Sequence[tuple[float, int]]) -> tuple[list[float], list[int]]:
    if len(rows) <= MAX_CLASSES:
        return [one for one, _ in rows], [count for _, count in rows]
    total, taken = sum(count for _, count in rows), 0
    lengths: list[float] = []
    counts: list[int] = []
    for one, count in rows:
        if taken * MAX_CLASSES >= len(lengths) * total:
            lengths.append(one)
            counts.append(0)
        counts[-1] += count
        taken += count
    return lengths, counts


def _steps(lengths: Sequence[float], counts: Sequence[int], limit: float) -> int:
    """The number of steps a shard at which rounding down loses least."""
    most = LOOKS // len(lengths)

    def lost(steps: int) -> float:
        exact = [one / limit * steps for one in lengths]
        return (
            sum(
                count * (one - int(one * (1 + ROUNDING * 10)))
                for one, count in zip(exact, counts, strict=True)
            )
            / steps
        )

    return min(range(most // 2, most, max(1, most // 400)), key=lost)


class _Mixtures:
    def __init__(
        self, rows: Sequence[tuple[int, int]], rooms: Sequence[int], parts: int, shards: int
    ) -> None:
        self.sizes, self.rooms, self.shards = [size for size, _ in rows], rooms, shards
        self.needs = [*(float(count) for _, count in rows), float(parts)]
        self.found = False

    def proved(self) -> bool:
        top = max(self.rooms)
        first = [
            Column(covers=((place, float(max(1, top // max(1, size)))),), cost=1.0)
            for place, size in enumerate(self.sizes)
        ]
        first.append(Column(covers=((len(self.sizes), float(len(self.rooms))),), cost=1.0))
        cover(self.needs, first, self._better, self._enough)
        return self.found

    def _worth(self, prices: Sequence[float]) -> float:
        return sum(price * need for price, need in zip(prices, self.needs, strict=True))

    def _enough(self, prices: Sequence[float]) -> bool:
        return self._worth(prices) <= self.shards

    def _better(self, prices: Sequence[float]) -> Column | None:
        top = max(self.rooms)
        best, last = [0.0] * (top + 1), [-1] * (top + 1)
        for place, (size, price) in enumerate(zip(self.sizes, prices, strict=False)):
            if price <= 0:
                continue
            for at in range(size, top + 1):
                value = best[at - size] + price
                if value > best[at]:
                    best[at], last[at] = value, place
        most, parts = max(
            (best[room] + prices[-1] * number, number) for number, room in enumerate(self.rooms, 1)
        )
        if most <= 0:
            return None
        # Farley's bound: prices over what a shard is worth at most are prices no shard is worth more at.
        self.found = self._worth(prices) / most > self.shards * (1 + ROUNDING * 10)
        if self.found or most <= 1 + 1e-7:
            return None
        held = {len(self.sizes): float(parts)}
        at = self.rooms[parts - 1]
        while at > 0 and last[at] >= 0:
            held[last[at]] = held.get(last[at], 0.0) + 1
            at -= self.sizes[last[at]]
        return Column(covers=tuple(sorted(held.items())), cost=1.0)
