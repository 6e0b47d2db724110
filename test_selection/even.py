"""Evening shards out while files can still be cut anywhere: swaps of pieces, and seconds of shared files."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from test_selection.fluid import Packing
from test_selection.grain import whole_grains

# Pairs of shards looked at, at most: about a third of a second.
MAX_PAIRS = 4000
# The shards that end soonest, and so many that share a file, are tried as partners of the longest.
MAX_PARTNERS = 6
# Two pieces go at once where a shard has no more than this many.
MAX_FOR_TWO = 14

# Seconds of pieces with their set-ups, and for each the file and its seconds of tests.
Bundle = tuple[float, tuple[tuple[int, float], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Seconds both shards end at the latest, and what goes from the longer one and what comes back."""

    peak: float
    partner: int
    leave: tuple[tuple[int, float], ...]
    back: tuple[tuple[int, float], ...] = ()


class Evening:
    """Shares of files on equal shards, and the seconds of each shard."""

    def __init__(self, packing: Packing) -> None:
        self.packing = packing
        self.loads = packing.loads
        self.held: list[dict[int, float]] = []
        for shares in packing.shares:
            held: dict[int, float] = {}
            for number, seconds in shares:
                held[number] = held.get(number, 0.0) + seconds
            self.held.append(held)
        self.time = [self._time(shard) for shard in range(len(self.held))]
        self.touched: list[set[int]] = [set() for _ in self.loads]
        for shard, held in enumerate(self.held):
            for number in held:
                self.touched[number].add(shard)

    def _time(self, shard: int) -> float:
        return sum(self.loads[number].setup_s + seconds for number, seconds in self.held[shard].items())

    def run(self, goal: float) -> float:
        """Improve the longest shard until it ends within `goal` or nothing found helps; its seconds."""
        longest_first = [(-time, shard) for shard, time in enumerate(self.time)]
        heapq.heapify(longest_first)
        soonest_first = [(time, shard) for shard, time in enumerate(self.time)]
        heapq.heapify(soonest_first)
        tried = 0
        while tried < MAX_PAIRS:
            while -longest_first[0][0] != self.time[longest_first[0][1]]:
                heapq.heappop(longest_first)
            longest = longest_first[0][1]
            peak = self.time[longest]
            if peak <= goal:
                break
            best: Step | None = None
            for partner in self._partners(longest, soonest_first):
                tried += 1
                for step in self._steps(longest, partner):
                    if step.peak < (best.peak if best else peak * (1 - 1e-7)):
                        best = step
                if best and best.peak <= goal:
                    break
            if best is None:
                break
            self._take(longest, best)
            for shard in (longest, best.partner):
                heapq.heappush(longest_first, (-self.time[shard], shard))
                heapq.heappush(soonest_first, (self.time[shard], shard))
        self.packing.shares = [list(held.items()) for held in self.held]
        return max(self.time)

    def _partners(self, longest: int, soonest_first: list[tuple[float, int]]) -> list[int]:
        found: dict[int, None] = {}
        kept: list[tuple[float, int]] = []
        while soonest_first and len(kept) < MAX_PARTNERS:
            row = heapq.heappop(soonest_first)
            if row[0] == self.time[row[1]] and row[1] not in found:
                kept.append(row)
                found[row[1]] = None
        for row in kept:
            heapq.heappush(soonest_first, row)
        fellows = {shard for number in self.held[longest] for shard in self.touched[number]}
        for shard in heapq.nsmallest(MAX_PARTNERS, fellows, key=lambda one: (self.time[one], one)):
            found[shard] = None
        found.pop(longest, None)
        return list(found)

    def _steps(self, giver: int, taker: int) -> Iterator[Step]:
        gives, takes = self.time[giver], self.time[taker]
        gap = gives - takes
        here, there = self.held[giver], self.held[taker]
        for number, seconds in here.items():
            setup = self.loads[number].setup_s
            if number in there:
                moved = whole_grains(self.loads[number], min(gap / 2, seconds))
                left = gives - moved
                if moved >= seconds:
                    left -= setup
                yield Step(peak=max(left, takes + moved), partner=taker, leave=((number, moved),))
                yield Step(
                    peak=max(gives - seconds - setup, takes + seconds),
                    partner=taker,
                    leave=((number, seconds),),
                )
            elif gap > setup:
                moved = whole_grains(self.loads[number], (gap - setup) / 2)
                if 0 < moved < seconds:
                    yield Step(
                        peak=max(gives - moved, takes + setup + moved),
                        partner=taker,
                        leave=((number, moved),),
                    )
        leave = self._bundles(here, there)
        back = [(0.0, ()), *self._bundles(there, here)]
        back.sort()
        for cost, bundle in leave:
            at = bisect_left(back, (cost - gap / 2,))
            for other, returned in back[max(0, at - 1) : at + 1]:
                moved = cost - other
                yield Step(peak=max(gives - moved, takes + moved), partner=taker, leave=bundle, back=returned)

    def _bundles(self, here: dict[int, float], there: dict[int, float]) -> list[Bundle]:
        """One or two pieces of files that the other shard does not hold, with their set-ups."""
        ones: list[Bundle] = [
            (self.loads[number].setup_s + seconds, ((number, seconds),))
            for number, seconds in here.items()
            if number not in there
        ]
        if len(ones) > MAX_FOR_TWO:
            return ones
        return ones + [(a + b, (*one, *two)) for (a, one), (b, two) in combinations(ones, 2)]

    def _take(self, giver: int, step: Step) -> None:
        for number, seconds in step.leave:
            self._move(giver, step.partner, number, seconds)
        for number, seconds in step.back:
            self._move(step.partner, giver, number, seconds)
        for shard in (giver, step.partner):
            self.time[shard] = self._time(shard)

    def _move(self, giver: int, taker: int, number: int, seconds: float) -> None:
        held = self.held[giver]
        if seconds >= held[number]:
            del held[number]
            self.touched[number].discard(giver)
        else:
            held[number] -= seconds
        self.held[taker][number] = self.held[taker].get(number, 0.0) + seconds
        self.touched[number].add(taker)


def even(packing: Packing, goal: float) -> float:
    """Even the shards of a packing out, in place; seconds of its longest shard."""
    return Evening(packing).run(goal)
