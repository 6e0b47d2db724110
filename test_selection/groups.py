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
from test_selection.linear import Column, Cover, cover
from test_selection.loads import FileLoad

# Sizes are told apart in so many classes, coarsely and finely, and measured in so many steps of a shard.
COARSE, FINE = 14, 60
STEPS = 1000
# Groups of so many shards, by as many as look at few classes of sizes, are looked at one by one; longer ones
# lose nearly a set-up a shard.
MAX_TOGETHER, MOST_TOGETHER = 3, 12
# The gap between what is proved and what is reached is halved so often, unless it is small.
HALVINGS = 6
CLOSE = 1.001
# One that is farther than this from its bound is looked at with fine classes.
FAR = 1.0095


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes:
    """Files by the set-up a cut costs, descending, and by size: seconds with one set-up, less full shards.

    A file fills some shards in any split; those are taken off first.

    Attributes:
        sizes: of each class, in steps.
        members: of each class, the places of its files in the loads.
        rooms: of each class, steps that groups of 1, 2, … shards hold when a cut costs no less than in it.
        chained: of each class, steps a shard that any longer group holds.
        shards: how many shards are left for these sizes.
    """

    sizes: tuple[int, ...]
    members: tuple[tuple[int, ...], ...]
    rooms: tuple[tuple[int, ...], ...]
    chained: tuple[float, ...]
    shards: int


def classify(
    loads: Sequence[FileLoad],
    shards: int,
    limit: float,
    *,
    most: int = COARSE,
    longest: int = MAX_TOGETHER,
    mean: bool = False,
) -> Classes | None:
    """Sort files into classes. None where a file has no room at all.

    Sizes and set-ups are rounded down, for a proof; or sizes to the `mean` of their class, for a packing.
    """
    rows: list[tuple[float, float, int]] = []
    for number, load in enumerate(loads):
        room = limit - load.setup_s
        if room <= 0:
            if load.total_s > 0:
                return None
            continue
        full = max(0, math.ceil(load.total_s / room - ROUNDING) - 1)
        shards -= full
        # A file of one test is never cut.
        cut = load.setup_s if len(load.ids) > 1 else limit
        rows.append((load.setup_s + max(0.0, load.total_s - full * room), cut, number))
    # What is less than a step counts for nothing: rounded down it must not weigh a step.
    rows = [row for row in rows if mean or row[0] * STEPS >= limit * 2]
    if not rows:
        return Classes(sizes=(), members=(), rooms=(), chained=(), shards=shards)
    parts = _partition(rows, most, limit)
    parts.sort(key=lambda part: (-min(row[1] for row in part), part[0]))
    sizes = [math.fsum(row[0] for row in part) / len(part) if mean else part[0][0] for part in parts]
    steps = _steps(sizes, [len(part) for part in parts], limit)
    slack = steps / limit * (1 + ROUNDING)
    if not math.isfinite(slack):  # seconds that no clock tells apart: nothing is proved of them
        return Classes(sizes=(), members=(), rooms=(), chained=(), shards=shards)
    cuts = [min(row[1] for row in part) for part in parts]
    return Classes(
        sizes=tuple(_in_steps(size, limit, steps) for size in sizes),
        members=tuple(tuple(number for _, _, number in part) for part in parts),
        rooms=tuple(
            tuple(
                int((together * (limit - cut) + cut) * slack + ROUNDING) for together in range(1, longest + 1)
            )
            for cut in cuts
        ),
        chained=tuple((limit - cut + cut / (longest + 1)) * slack for cut in cuts),
        shards=shards,
    )


def _in_steps(size: float, limit: float, steps: int) -> int:
    return max(1, int(size / limit * steps * (1 - ROUNDING)))


def _steps(sizes: Sequence[float], counts: Sequence[int], limit: float) -> int:
    """The number of steps a shard at which rounding loses least."""

    def lost(steps: int) -> float:
        return sum(
            count * abs(size / limit - _in_steps(size, limit, steps) / steps)
            for size, count in zip(sizes, counts, strict=True)
        )

    return min(range(STEPS * 2 // 3, STEPS * 4 // 3, 7), key=lost)


Row = tuple[float, float, int]


def _partition(rows: Sequence[Row], most: int, limit: float) -> list[list[Row]]:
    """Cut files into classes by size or set-up, each time the class that rounds away most, at its middle."""

    def loss(part: Sequence[Row], at: int) -> float:
        least = min(row[at] for row in part)
        return math.fsum(row[at] - least for row in part)

    def entry(part: list[Row]) -> tuple[float, list[Row], int]:
        lost = [loss(part, at) for at in (0, 1)]
        at = int(lost[1] > lost[0])
        return (-lost[at], sorted(part), at)

    heap = [entry(list(rows))]
    while len(heap) < most and heap[0][0] < -ROUNDING * limit:
        _, part, at = heapq.heappop(heap)
        middle = (min(row[at] for row in part) + max(row[at] for row in part)) / 2
        heapq.heappush(heap, entry([row for row in part if row[at] <= middle]))
        heapq.heappush(heap, entry([row for row in part if row[at] > middle]))
    return [part for _, part, _ in heap]


class Prices:
    """The dearest group of each number of shards, at given prices of the classes."""

    def __init__(self, classes: Classes, prices: Sequence[float]) -> None:
        self.classes = classes
        top = classes.rooms[-1][-1]
        best = [0.0] * (top + 1)
        last = [-1] * (top + 1)
        # For each number of shards the most a group is worth, and the places of its files.
        longest = len(classes.rooms[0])
        self.worth = [0.0] * longest
        self._held: list[dict[int, float]] = [{} for _ in range(longest)]
        self.chain, self._chain = 0.0, (0, 0.0)
        dense = (0.0, 0)
        sizes, count = classes.sizes, len(classes.sizes)
        for place, (size, price) in enumerate(zip(sizes, prices, strict=True)):
            if price > 0:
                for at in range(size, top + 1):
                    value = best[at - size] + price
                    if value > best[at]:
                        best[at] = value
                        last[at] = place
                dense = max(dense, (price / size, -place))
            # Classes to come have cheaper cuts: groups of those so far are settled before they join.
            if place + 1 == count or classes.rooms[place + 1] != classes.rooms[place]:
                self._settle(place, best, last, dense)

    def _settle(
        self, place: int, best: Sequence[float], last: Sequence[int], dense: tuple[float, int]
    ) -> None:
        for together, room in enumerate(self.classes.rooms[place]):
            if best[room] > self.worth[together]:
                self.worth[together] = best[room]
                self._held[together] = self._found(room, last)
        times = self.classes.chained[place]
        if dense[0] * times > self.chain:
            self.chain, self._chain = dense[0] * times, (-dense[1], times / self.classes.sizes[-dense[1]])

    def _found(self, at: int, last: Sequence[int]) -> dict[int, float]:
        held: dict[int, float] = {}
        while at > 0 and last[at] >= 0:
            held[last[at]] = held.get(last[at], 0.0) + 1
            at -= self.classes.sizes[last[at]]
        return held

    @property
    def most(self) -> float:
        """What a shard can be worth at most."""
        return max(self.chain, *(worth / together for together, worth in enumerate(self.worth, start=1)))

    def columns(self) -> list[Column]:
        """The dearest group of each number of shards, and the longer one that is worth most a shard."""
        found = [
            Column(covers=tuple(sorted(held.items())), cost=float(together))
            for together, held in enumerate(self._held, start=1)
            if held
        ]
        return [*found, Column(covers=(self._chain,), cost=1.0)] if self.chain else found


def grouped_bound(
    loads: Sequence[FileLoad], shards: int, low: float, high: float, *, finely: bool = True
) -> float:
    """The best bound found from `low`, a bound, up to `high`, a makespan that was reached."""
    reached = high
    for _ in range(HALVINGS):
        if high <= low * CLOSE:
            break
        middle = (low + high) / 2
        if needs_more(loads, shards, middle):
            low = middle
        else:
            high = middle
    # Fine classes are dear: they are asked for what is wanted first, and for half of it then.
    for limit in (reached / FAR, (low + reached / FAR) / 2) if finely else ():
        for most, longest in ((COARSE, MOST_TOGETHER), (FINE, MAX_TOGETHER)):
            if limit > low * CLOSE and needs_more(loads, shards, limit, most=most, longest=longest):
                return limit
    return low


def needs_more(
    loads: Sequence[FileLoad],
    shards: int,
    limit: float,
    *,
    most: int = COARSE,
    longest: int = MAX_TOGETHER,
) -> bool:
    """Whether no mixture of groups ends within `limit` seconds on so many shards."""
    if limit <= ROUNDING:
        return False
    classes = classify(loads, shards, limit, most=most, longest=longest)
    if classes is None or classes.shards < bool(classes.sizes):
        return True
    if not classes.sizes:
        return False
    if any(size > rooms[0] for size, rooms in zip(classes.sizes, classes.rooms, strict=True)):
        return True
    return Proof(classes).run()


class Proof:
    """Columns found for one set of classes, and whether the shards are shown to be too few."""

    def __init__(self, classes: Classes) -> None:
        self.classes = classes
        self.counts = [len(members) for members in classes.members]
        self.proved = False
        self._pool: dict[Column, None] = {}

    def run(self) -> bool:
        """Whether it is proved."""
        self.cover()
        return self.proved

    def cover(self) -> Cover:
        """The mixture of groups found last."""
        return cover(self.counts, first_columns(self.classes, self.counts), self._better, self._enough)

    def _enough(self, prices: Sequence[float]) -> bool:
        return self._total(prices) <= self.classes.shards

    def _total(self, prices: Sequence[float]) -> float:
        return sum(price * count for price, count in zip(prices, self.counts, strict=True))

    def _better(self, prices: Sequence[float]) -> Column | None:
        def worth(column: Column) -> float:
            return sum(prices[place] * much for place, much in column.covers) / column.cost

        # Columns seen before cost little to look through; the dearest of all is sought where none will do.
        known = max(self._pool, key=worth, default=None)
        if known is not None and worth(known) > 1 + 1e-4:
            return known
        found = Prices(self.classes, prices)
        # Farley's bound: prices over what a shard is worth at most are prices no group is worth more at.
        self.proved = self._total(prices) / found.most > self.classes.shards * (1 + ROUNDING * 10)
        if self.proved or found.most <= 1 + 1e-7:
            return None
        columns = found.columns()
        self._pool.update(dict.fromkeys(columns))
        return max(columns, key=worth)


def mixture(
    loads: Sequence[FileLoad], shards: int, limit: float, *, most: int = 36
) -> list[tuple[int, tuple[int, ...]]]:
    """Groups that the linear program takes whole: the shards of each, and the places of its files' rests."""
    classes = classify(loads, shards, limit, most=most, mean=True)
    if classes is None or classes.shards <= 0 or not classes.sizes:
        return []
    proof = Proof(classes)
    left = [list(members) for members in classes.members]
    found = []
    for column, much in proof.cover().used:
        if any(times != int(times) for _, times in column.covers):
            continue
        for _ in range(int(much + 1e-6)):
            if all(len(left[place]) >= times for place, times in column.covers):
                files = [left[place].pop() for place, times in column.covers for _ in range(int(times))]
                found.append((int(column.cost), tuple(files)))
    return found


def first_columns(classes: Classes, counts: Sequence[int]) -> list[Column]:
    """For each class a shard with nothing else, to start the linear program from."""
    return [
        Column(covers=((place, float(max(1, min(rooms[0] // size, count)))),), cost=1.0)
        for place, (size, rooms, count) in enumerate(zip(classes.sizes, classes.rooms, counts, strict=True))
    ]
