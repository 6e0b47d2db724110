"""How shards and files may be grouped: the least shards that a limit asks for, by a linear program.

Join a shard and a file wherever the shard holds a part of the file. A connected group of a shards and b files
holds a + b - 1 parts at least, so a - 1 cuts, each of which costs one more set-up: the files of a group, with
one set-up each, take no more than a T - (a - 1) s seconds, s the least set-up. What no choice of files fills
is lost besides. The fewest shards over all mixtures of groups is the linear program of Gilmore and Gomory
(Operations Research 9, 1961) with groups for rolls.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

from test_selection.bound import ROUNDING
from test_selection.grain import whole_grains
from test_selection.linear import Column, cover
from test_selection.loads import FileLoad

# Sizes are told apart in so many classes, and measured in so many steps of a shard, about.
MAX_CLASSES = 14
STEPS = 1000
# Groups of so many shards are looked at one by one; longer ones lose nearly a set-up a shard.
MAX_TOGETHER = 3
# The gap between what is proved and what is reached is halved so often, unless it is small.
HALVINGS = 6
CLOSE = 1.001
# A makespan this near is left as it is.
NEAR = 1.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes:
    """Files by size: seconds with one set-up, less the full shards a file needs in any split.

    Attributes:
        sizes: of each class, in steps.
        members: of each class, the places of its files in the loads.
        rooms: steps that groups of 1, 2, … shards hold.
        chained: steps a shard that any longer group holds.
        shards: how many shards are left for these sizes.
    """

    sizes: tuple[int, ...]
    members: tuple[tuple[int, ...], ...]
    rooms: tuple[int, ...]
    chained: float
    shards: int


def classify(loads: Sequence[FileLoad], shards: int, limit: float, *, up: bool = False) -> Classes | None:
    """Sort files into classes; sizes are rounded down, or `up`. None where a file has no room at all."""
    rows: list[tuple[float, int]] = []
    for number, load in enumerate(loads):
        room = limit - load.setup_s
        if room <= 0:
            if load.total_s > 0:
                return None
            rows.append((load.whole_s, number))
            continue
        if up:
            room = whole_grains(load, room) or room
        full = max(0, math.ceil(load.total_s / room - ROUNDING) - 1)
        shards -= full
        rows.append((load.setup_s + max(0.0, load.total_s - full * room), number))
    if not up:
        # What is less than a step counts for nothing: rounded down it must not weigh a step.
        rows = [row for row in rows if row[0] * STEPS >= limit * 2]
    if not rows:
        return Classes(sizes=(), members=(), rooms=(0,), chained=0.0, shards=shards)
    rows.sort()
    least = min((load.setup_s for load in loads if len(load.ids) > 1), default=limit)
    parts = _partition([size for size, _ in rows], up=up)
    picks = [rows[end - 1][0] if up else rows[start][0] for start, end in parts]
    counts = [end - start for start, end in parts]
    steps = _steps(picks, counts, limit, up=up)
    sizes = [_in_steps(size, limit, steps, up=up) for size in picks]
    inner = limit - least
    slack = 1 + ROUNDING
    return Classes(
        sizes=tuple(sizes),
        members=tuple(tuple(number for _, number in rows[start:end]) for start, end in parts),
        rooms=tuple(
            int((together * inner + least) / limit * steps * slack + ROUNDING)
            for together in range(1, MAX_TOGETHER + 1)
        ),
        chained=(inner + least / (MAX_TOGETHER + 1)) / limit * steps * slack,
        shards=shards,
    )


def _in_steps(size: float, limit: float, steps: int, *, up: bool) -> int:
    exact = size / limit * steps
    return max(1, math.ceil(exact * (1 - ROUNDING)) if up else int(exact * (1 - ROUNDING)))


def _steps(sizes: Sequence[float], counts: Sequence[int], limit: float, *, up: bool) -> int:
    """The number of steps a shard at which rounding loses least."""

    def lost(steps: int) -> float:
        return sum(
            count * abs(size / limit - _in_steps(size, limit, steps, up=up) / steps)
            for size, count in zip(sizes, counts, strict=True)
        )

    return min(range(STEPS * 2 // 3, STEPS * 4 // 3, 7), key=lost)


def _partition(sizes: Sequence[float], *, up: bool) -> list[tuple[int, int]]:
    """Cut sorted sizes into classes, each time the one that rounds away most, at its middle size."""

    def row(start: int, end: int) -> tuple[float, int, int]:
        total = math.fsum(sizes[start:end])
        return (-abs(total - (end - start) * sizes[end - 1 if up else start]), start, end)

    heap = [row(0, len(sizes))]
    while len(heap) < MAX_CLASSES and heap[0][0] < -ROUNDING * sizes[-1]:
        _, start, end = heapq.heappop(heap)
        middle = (sizes[start] + sizes[end - 1]) / 2
        at = next(place for place in range(start + 1, end) if sizes[place] > middle or place == end - 1)
        heapq.heappush(heap, row(start, at))
        heapq.heappush(heap, row(at, end))
    return sorted((start, end) for _, start, end in heap)


class Prices:
    """The dearest group of each number of shards, at given prices of the classes."""

    def __init__(self, classes: Classes, prices: Sequence[float]) -> None:
        self.classes = classes
        room = classes.rooms[-1]
        best = [0.0] * (room + 1)
        last = [-1] * (room + 1)
        for place, (size, price) in enumerate(zip(classes.sizes, prices, strict=True)):
            if price <= 0:
                continue
            for at in range(size, room + 1):
                value = best[at - size] + price
                if value > best[at]:
                    best[at] = value
                    last[at] = place
        self._last = last
        self.values = [best[one] for one in classes.rooms]
        self.ratio, self._together = max(
            (value / together, -together) for together, value in enumerate(self.values, start=1)
        )
        dense, place = max(
            (price / size, -place)
            for place, (size, price) in enumerate(zip(classes.sizes, prices, strict=True))
        )
        self._dense = -place
        self.chain = dense * classes.chained

    @property
    def most(self) -> float:
        """What a shard can be worth at most."""
        return max(self.ratio, self.chain)

    def column(self) -> Column:
        """The group that is worth most a shard."""
        if self.chain > self.ratio:
            times = self.classes.chained / self.classes.sizes[self._dense]
            return Column(covers=((self._dense, times),), cost=1.0)
        together = -self._together
        at = self.classes.rooms[together - 1]
        held: dict[int, float] = {}
        while at > 0 and self._last[at] >= 0:
            place = self._last[at]
            held[place] = held.get(place, 0.0) + 1
            at -= self.classes.sizes[place]
        return Column(covers=tuple(sorted(held.items())), cost=float(together))


def grouped_bound(loads: Sequence[FileLoad], shards: int, low: float, high: float) -> float:
    """The best bound found from `low`, a bound, up to `high`, a makespan that was reached."""
    if high <= low * NEAR:
        return low
    for _ in range(HALVINGS):
        if high <= low * CLOSE:
            break
        middle = (low + high) / 2
        if needs_more(loads, shards, middle):
            low = middle
        else:
            high = middle
    return low


def needs_more(loads: Sequence[FileLoad], shards: int, limit: float) -> bool:
    """Whether no mixture of groups ends within `limit` seconds on so many shards."""
    if limit <= 0:
        return False
    classes = classify(loads, shards, limit)
    if classes is None or classes.shards < bool(classes.sizes):
        return True
    if not classes.sizes:
        return False
    counts = [len(members) for members in classes.members]
    proved = False
    seen: dict[tuple[float, ...], Prices] = {}

    def priced(prices: Sequence[float]) -> Prices:
        seen.clear()
        return seen.setdefault(tuple(prices), Prices(classes, prices))

    def enough(prices: Sequence[float]) -> bool:
        nonlocal proved
        worth = sum(price * count for price, count in zip(prices, counts, strict=True))
        if worth <= classes.shards:
            return True
        # Farley's bound: prices over what a shard is worth at most are prices no group is worth more at.
        proved = worth / priced(prices).most > classes.shards * (1 + ROUNDING * 10)
        return proved

    def better(prices: Sequence[float]) -> Column | None:
        found = seen[tuple(prices)]
        return found.column() if found.most > 1 + 1e-7 else None

    if max(classes.sizes) > classes.rooms[0]:
        return True
    cover(counts, first_columns(classes, counts), better, enough)
    return proved


def first_columns(classes: Classes, counts: Sequence[int]) -> list[Column]:
    """For each class a shard with nothing else, to start the linear program from."""
    return [
        Column(covers=((place, float(max(1, min(classes.rooms[0] // size, count)))),), cost=1.0)
        for place, (size, count) in enumerate(zip(classes.sizes, counts, strict=True))
    ]
