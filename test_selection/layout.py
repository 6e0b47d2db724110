"""Where each test lies while a plan is made, and dealing whole tests out to shards."""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Sequence

from test_selection.fluid import Packing
from test_selection.loads import FileLoad


class Layout:
    """Tests on shards: for each shard, by the file's place in `loads`, its tests' places, ascending.

    `work` is seconds at speed 1; a shard's time is its work over its speed.
    """

    def __init__(
        self,
        loads: Sequence[FileLoad],
        widths: Sequence[int],
        speeds: Sequence[float],
        max_files: int | None = None,
    ) -> None:
        self.loads = loads
        self.widths = list(widths)
        self.speeds = list(speeds)
        self.max_files = max_files
        self.content: list[dict[int, list[int]]] = [{} for _ in widths]
        self.work = [0.0] * len(self.widths)
        self.touched: list[set[int]] = [set() for _ in loads]

    def time(self, shard: int) -> float:
        """Seconds until a shard ends."""
        return self.work[shard] / self.speeds[shard]

    @property
    def makespan(self) -> float:
        """Seconds of the longest shard."""
        return max(map(self.time, range(len(self.work))))

    def add(self, shard: int, load: int, tests: Sequence[int]) -> None:
        """Put tests of one file on a shard; the first of its file brings the set-up."""
        one = self.loads[load]
        held = self.content[shard].get(load)
        if held is None:
            held = self.content[shard][load] = []
            self.touched[load].add(shard)
            self.work[shard] += one.setup_s
        for test in tests:
            insort(held, test)
            self.work[shard] += one.seconds[test]

    def remove(self, shard: int, load: int, tests: Sequence[int]) -> None:
        """Take tests off a shard; the last of its file takes the set-up along."""
        one = self.loads[load]
        held = self.content[shard][load]
        for test in tests:
            held.remove(test)
            self.work[shard] -= one.seconds[test]
        if not held:
            del self.content[shard][load]
            self.touched[load].remove(shard)
            self.work[shard] -= one.setup_s

    def takes(self, shard: int, load: int) -> bool:
        """Whether a shard may run tests of a file: it is wide enough and has not too many files."""
        if self.widths[shard] < self.loads[load].cards:
            return False
        if self.max_files is None or load in self.content[shard]:
            return True
        files = {self.loads[one].file for one in self.content[shard]}
        return len(files | {self.loads[load].file}) <= self.max_files


def deal_shares(packing: Packing) -> Layout:
    """Deal whole tests out to the shards that hold shares of their file, longest test first.

    Files with the longest tests come first; how far a shard ended above or below its due is made up for
    by the files dealt after, whose tests are finer.
    """
    loads = packing.loads
    layout = Layout(loads, packing.widths, packing.speeds, packing.max_files)
    due: list[dict[int, float]] = [{} for _ in loads]
    for shard, shares in enumerate(packing.shares):
        for number, seconds in shares:
            due[number][shard] = due[number].get(shard, 0.0) + seconds
    # What each shard got beyond its due so far; a shard not touched by a file any more saves its set-up.
    over = [0.0] * len(packing.shares)
    for number in sorted(range(len(loads)), key=lambda one: (len(due[one]) > 1, -loads[one].seconds[0], one)):
        load = loads[number]
        owed = [(over[shard] - seconds, shard) for shard, seconds in sorted(due[number].items())]
        for excess, shard, tests in _deal(load.seconds, owed):
            over[shard] = excess
            if tests:
                layout.content[shard][number] = tests
                layout.touched[number].add(shard)
                layout.work[shard] += load.setup_s + sum(map(load.seconds.__getitem__, tests))
            else:
                over[shard] -= load.setup_s
    return layout


def _deal(seconds: Sequence[float], owed: Sequence[tuple[float, int]]) -> list[tuple[float, int, list[int]]]:
    """Each test to the shard that is owed most: excess, shard and tests of each."""
    if len(owed) == 1:
        excess, shard = owed[0]
        return [(excess + sum(seconds), shard, list(range(len(seconds))))]
    got: dict[int, list[int]] = {shard: [] for _, shard in owed}
    heap = list(owed)
    heapq.heapify(heap)
    replace = heapq.heapreplace
    for test, one in enumerate(seconds):
        excess, shard = heap[0]
        got[shard].append(test)
        replace(heap, (excess + one, shard))
    return [(excess, shard, got[shard]) for excess, shard in sorted(heap, key=lambda row: row[1])]
