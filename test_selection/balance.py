"""Where each test lies while a plan is made, and relieving the longest shard test by test."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from test_selection.bound import FileLoad

# Relieving looks at so many moves and swaps at most, about half a second's worth.
MAX_TRIED = 200_000
# Swaps are tried with so many of the shards that share a file, those that end soonest.
MAX_PARTNERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Tests that leave the longest shard and tests that come back for them, by file and place in it."""

    peak: float
    shard: int
    leave: tuple[tuple[int, int], ...]
    back: tuple[tuple[int, int], ...] = ()


class Layout:
    """Tests on shards: for each shard, by the file's place in `loads`, its tests' places in the file."""

    def __init__(self, loads: Sequence[FileLoad], shards: int) -> None:
        self.loads = loads
        self.content: list[dict[int, set[int]]] = [{} for _ in range(shards)]
        self.seconds = [0.0] * shards
        self.touched: list[set[int]] = [set() for _ in loads]

    @property
    def makespan(self) -> float:
        """Seconds of the longest shard."""
        return max(self.seconds)

    def add(self, shard: int, load: int, test: int) -> None:
        """Put a test on a shard; the first of its file brings the set-up."""
        self.seconds[shard] += self.cost(shard, load, test)
        self.content[shard].setdefault(load, set()).add(test)
        self.touched[load].add(shard)

    def remove(self, shard: int, load: int, test: int) -> None:
        """Take a test off a shard; the last of its file takes the set-up along."""
        tests = self.content[shard][load]
        tests.remove(test)
        if not tests:
            del self.content[shard][load]
            self.touched[load].remove(shard)
        self.seconds[shard] -= self.cost(shard, load, test)

    def cost(self, shard: int, load: int, test: int) -> float:
        """Seconds a test adds to a shard that does not hold it."""
        one = self.loads[load]
        return one.seconds[test] + (0.0 if load in self.content[shard] else one.setup_s)


def deal_greedily(loads: Sequence[FileLoad], shards: int) -> Layout:
    """Deal tests out, those of the longest set-up and time first, each to where it ends soonest."""
    layout = Layout(loads, shards)
    order = [
        (-(load.setup_s + seconds), number, test)
        for number, load in enumerate(loads)
        for test, seconds in enumerate(load.seconds)
    ]
    everywhere = [(0.0, shard) for shard in range(shards)]
    by_file: list[list[tuple[float, int]]] = [[] for _ in loads]
    for _, number, test in sorted(order):
        choices = [_soonest(layout, everywhere)]
        if by_file[number]:
            choices.append(_soonest(layout, by_file[number]))
        shard = min(choices, key=lambda one: (layout.seconds[one] + layout.cost(one, number, test), one))
        new = number not in layout.content[shard]
        layout.add(shard, number, test)
        if new:
            heapq.heappush(by_file[number], (layout.seconds[shard], shard))
    return layout


def _soonest(layout: Layout, heap: list[tuple[float, int]]) -> int:
    """The shard of the heap that ends soonest; seconds in the heap may be old, and only ever grew."""
    while heap[0][0] < layout.seconds[heap[0][1]]:
        heapq.heapreplace(heap, (layout.seconds[heap[0][1]], heap[0][1]))
    return heap[0][1]


def relieve(layout: Layout, *, goal: float) -> None:
    """Move and swap tests off the longest shard until it is within `goal` seconds or nothing helps."""
    tried = 0
    while tried < MAX_TRIED:
        longest = max(range(len(layout.seconds)), key=lambda shard: (layout.seconds[shard], -shard))
        peak = layout.seconds[longest]
        if peak <= goal:
            return
        steps = (*_moves(layout, longest), *_swaps(layout, longest))
        tried += len(steps)
        best = min(steps, key=lambda step: step.peak, default=None)
        if best is None or best.peak >= peak * (1 - 1e-12):
            return
        for load, test in best.leave:
            layout.remove(longest, load, test)
        for load, test in best.back:
            layout.remove(best.shard, load, test)
            layout.add(longest, load, test)
        for load, test in best.leave:
            layout.add(best.shard, load, test)


def _moves(layout: Layout, longest: int) -> Iterator[Step]:
    """One test, or all of a file, to the shard that ends soonest, of all or of those with the file."""
    seconds = layout.seconds
    shards = [shard for shard in range(len(seconds)) if shard != longest]
    if not shards:
        return
    soonest = min(shards, key=lambda shard: (seconds[shard], shard))
    for number, tests in layout.content[longest].items():
        load = layout.loads[number]
        fellows = [shard for shard in layout.touched[number] if shard != longest]
        targets = {soonest, min(fellows, key=lambda shard: (seconds[shard], shard), default=soonest)}
        for target in sorted(targets):
            setup = 0.0 if target in layout.touched[number] else load.setup_s
            whole = sum(load.seconds[test] for test in sorted(tests))
            peak = max(seconds[longest] - whole - load.setup_s, seconds[target] + whole + setup)
            yield Step(peak=peak, shard=target, leave=tuple((number, test) for test in sorted(tests)))
            if len(tests) > 1:
                for test in sorted(tests):
                    time = load.seconds[test]
                    peak = max(seconds[longest] - time, seconds[target] + time + setup)
                    yield Step(peak=peak, shard=target, leave=((number, test),))


def _swaps(layout: Layout, longest: int) -> Iterator[Step]:
    """A test against a shorter one of the same file elsewhere: no set-up is won or lost."""
    for number, tests in sorted(layout.content[longest].items()):
        times = layout.loads[number].seconds
        fellows = layout.touched[number] - {longest}
        partners = heapq.nsmallest(MAX_PARTNERS, fellows, key=lambda shard: (layout.seconds[shard], shard))
        for shard in partners:
            room = layout.seconds[longest] - layout.seconds[shard]
            others = sorted(layout.content[shard][number])
            for test in sorted(tests):
                # Half of the difference moved makes the two equal; times fall with the place in the file.
                wanted = times[test] - room / 2
                at = bisect_left(others, -wanted, key=lambda one: -times[one])
                for other in others[max(at - 1, 0) : at + 1]:
                    moved = times[test] - times[other]
                    peak = max(layout.seconds[longest] - moved, layout.seconds[shard] + moved)
                    yield Step(peak=peak, shard=shard, leave=((number, test),), back=((number, other),))
