"""Where each test lies while a plan is made: whole tests dealt out, and the longest shard relieved."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import itemgetter, truediv

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

    @property
    def ends(self) -> list[float]:
        """Seconds until each shard ends."""
        return list(map(truediv, self.work, self.speeds))

    @property
    def makespan(self) -> float:
        """Seconds of the longest shard."""
        return max(self.ends)

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
    """Deal whole tests out to the shards that hold shares of their file, longest test first."""
    layout = Layout(packing.loads, packing.widths, packing.speeds, packing.max_files)
    owed: list[list[tuple[float, int]]] = [[] for _ in packing.loads]
    for shard, shares in enumerate(packing.shares):
        for number, seconds in shares.items():
            owed[number].append((-seconds, shard))
    for number, load in enumerate(packing.loads):
        for shard, tests in _deal(load.seconds, owed[number]).items():
            layout.content[shard][number] = tests
            layout.touched[number].add(shard)
            layout.work[shard] += load.setup_s + sum(map(load.seconds.__getitem__, tests))
    return layout


def _deal(seconds: Sequence[float], owed: list[tuple[float, int]]) -> dict[int, list[int]]:
    """Each test to the shard that is owed most, by shard; `owed` is used up."""
    if len(owed) == 1:
        return {owed[0][1]: list(range(len(seconds)))}
    got: defaultdict[int, list[int]] = defaultdict(list)
    heapq.heapify(owed)
    for test, one in enumerate(seconds):
        excess, shard = owed[0]
        got[shard].append(test)
        heapq.heapreplace(owed, (excess + one, shard))
    return got


# Relieving weighs so many moves and swaps at most: a few tenths of a second's worth, and less where the
# tests are so many that relieving wins little.
MAX_TRIED = 200_000
MAX_TRIED_OF_MANY = 10_000
MANY_TESTS = 100_000
# Partners are sought among so many shards that end soonest, and so many that share a file; more where none
# of those helps.
MAX_PARTNERS, WIDE_PARTNERS = 6, 40
# Of the tests of one file on one shard so many are weighed for a swap, evenly spread over their lengths.
MAX_SINGLES = 24
MAX_LOOKS = 256

# Seconds off the giving shard, seconds onto the taking one, the file, its tests that go.
Item = tuple[float, float, int, tuple[int, ...]]
# Seconds of the longer of two shards afterwards, the taking one, what goes there, what comes back.
Step = tuple[float, int, Item, Item | None]


def relieve(layout: Layout, *, goal: float, thoroughly: bool = False) -> None:
    """Move and swap tests off the longest shard until it is within `goal` seconds or nothing helps.

    Many tests are not looked at as long as few, unless `thoroughly`.
    """
    many = not thoroughly and sum(len(load.ids) for load in layout.loads) > MANY_TESTS
    tried, most = 0, MAX_TRIED_OF_MANY if many else MAX_TRIED
    while tried < most and (peak := max(ends := layout.ends)) > goal:
        longest = ends.index(peak)
        for count in (MAX_PARTNERS, WIDE_PARTNERS):
            partners = _partners(layout, longest, ends, count)
            step, looks = _first_step(layout, longest, partners, peak)
            tried += looks
            if step is not None:
                break
        else:
            return
        _, shard, (_, _, number, tests), back = step
        layout.remove(longest, number, tests)
        if back is not None:
            layout.remove(shard, *back[2:])
            layout.add(longest, *back[2:])
        layout.add(shard, number, tests)


def _first_step(
    layout: Layout, longest: int, partners: Sequence[int], peak: float
) -> tuple[Step | None, int]:
    """The best step with the first partner that has one, and how many were weighed.

    The best step of all is not worth its search: the next one mends what this one leaves.
    """
    tried = 0
    for shard in partners:
        steps = list(_steps(layout, longest, shard))
        tried += len(steps)
        best = min(steps, key=itemgetter(0), default=None)
        if best is not None and best[0] < peak * (1 - 1e-9):
            return best, tried
    return None, tried


def _partners(layout: Layout, longest: int, ends: Sequence[float], most: int) -> list[int]:
    """The shards that end soonest, of those that share a file with the longest one and of all.

    Tests go to the former without one set-up more.
    """
    fellows = {shard for number in layout.content[longest] for shard in layout.touched[number]}
    rows = (sorted(fellows), range(len(ends)))
    found = dict.fromkeys(one for row in rows for one in heapq.nsmallest(most, row, key=ends.__getitem__))
    found.pop(longest, None)
    return list(found)


def _steps(layout: Layout, giver: int, taker: int) -> Iterator[Step]:
    """Moves from one shard to another, and swaps that come near to making both equal."""
    gap = layout.work[giver] - layout.work[taker]
    back = sorted(_items(layout, taker, giver))
    for item in _items(layout, giver, taker):
        at = bisect_left(back, ((item[0] + item[1] - gap) / 2,))
        for other in (None, *back[max(at - 1, 0) : at + 1]):
            if (peak := _peak(layout, giver, taker, item, other)) is not None:
                yield peak, taker, item, other


def _items(layout: Layout, giver: int, taker: int) -> list[Item]:
    """What could go from one shard to another: all of a file, or one test of it."""
    items: list[Item] = []
    for number, tests in layout.content[giver].items():
        if not layout.takes(taker, number):
            continue
        load = layout.loads[number]
        setup = 0.0 if number in layout.content[taker] else load.setup_s
        seconds = load.seconds
        if len(tests) <= MAX_SINGLES:
            total = sum(map(seconds.__getitem__, tests))
            items.append((total + load.setup_s, total + setup, number, tuple(tests)))
        if len(tests) > 1:
            items += [
                (seconds[test], seconds[test] + setup, number, (test,)) for test in _singles(seconds, tests)
            ]
    return items


def _singles(seconds: Sequence[float], tests: Sequence[int]) -> list[int]:
    """Tests of different lengths above 0, evenly spread; equal ones would weigh the same."""
    first = {seconds[test]: test for test in tests[:: max(1, len(tests) // MAX_LOOKS)]}
    first.pop(0.0, None)
    found = list(first.values())
    return found[:: max(1, len(found) // MAX_SINGLES)]


def _peak(layout: Layout, giver: int, taker: int, leave: Item, back: Item | None) -> float | None:
    """Seconds of the longer of two shards after a move or swap; None where it cannot be reckoned so."""
    gives, takes = layout.work[giver] - leave[0], layout.work[taker] + leave[1]
    if back is not None:
        if back[2] == leave[2] and (
            len(leave[3]) == len(layout.content[giver][leave[2]])
            or len(back[3]) == len(layout.content[taker][leave[2]])
        ):
            # The last tests of a file against others of it: each shard keeps its set-up.
            return None
        gives, takes = gives + back[1], takes - back[0]
    return max(gives / layout.speeds[giver], takes / layout.speeds[taker])
