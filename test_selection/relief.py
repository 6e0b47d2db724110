"""Relieving the longest shard of a layout, test by test, until it is short enough or nothing helps."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from test_selection.layout import Layout

# Relieving weighs so many moves and swaps at most: a few tenths of a second's worth, and less where the
# tests are so many that relieving wins little.
MAX_TRIED = 200_000
MAX_TRIED_OF_MANY = 30_000
MANY_TESTS = 100_000
# Partners are sought among so many shards that end soonest, and so many that share a file; more where none
# of those helps.
MAX_PARTNERS, WIDE_PARTNERS = 6, 40
# Of the tests of one file on one shard so many are weighed for a swap, evenly spread over their lengths.
MAX_SINGLES = 24
MAX_LOOKS = 256
# Two tests of a file go at once where a shard has no more of it.
MAX_FOR_TWO = 14
# So many of one length go at once, where there are no more lengths and no more tests.
MAX_ALIKE, MAX_LENGTHS, MAX_FOR_SEVERAL = 6, 4, 200

# Seconds off the giving shard, seconds onto the taking one, the file, its tests that go.
Item = tuple[float, float, int, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What leaves the longest shard for another, and what comes back for it."""

    peak: float
    shard: int
    leave: Item
    back: Item | None = None


def relieve(layout: Layout, *, goal: float, thoroughly: bool = False) -> None:
    """Move and swap tests off the longest shard until it is within `goal` seconds or nothing helps.

    Many tests are not looked at as long as few, unless `thoroughly`.
    """
    shards = range(len(layout.work))
    longest_first = [(-layout.time(shard), shard) for shard in shards]
    soonest_first = [(layout.time(shard), shard) for shard in shards]
    heapq.heapify(longest_first)
    heapq.heapify(soonest_first)
    many = not thoroughly and sum(len(load.ids) for load in layout.loads) > MANY_TESTS
    tried, most = 0, MAX_TRIED_OF_MANY if many else MAX_TRIED
    while tried < most:
        while -longest_first[0][0] != layout.time(longest_first[0][1]):
            heapq.heappop(longest_first)
        longest = longest_first[0][1]
        peak = layout.time(longest)
        if peak <= goal:
            return
        best: Step | None = None
        for partners in (MAX_PARTNERS,) if many else (MAX_PARTNERS, WIDE_PARTNERS):
            found = _partners(layout, longest, soonest_first, most=partners, anywhere_first=many)
            best, looks = _first_step(layout, longest, found)
            tried += looks
            if best is not None:
                break
        if best is None:
            return
        _take(layout, longest, best)
        for shard in (longest, best.shard):
            heapq.heappush(longest_first, (-layout.time(shard), shard))
            heapq.heappush(soonest_first, (layout.time(shard), shard))


def _first_step(layout: Layout, longest: int, partners: Sequence[int]) -> tuple[Step | None, int]:
    """The best step with the first partner that has one, and how many were weighed."""
    peak = layout.time(longest) * (1 - 1e-9)
    tried = 0
    best: Step | None = None
    for shard in partners:
        for step in _steps(layout, longest, shard):
            tried += 1
            if step.peak < (best.peak if best else peak):
                best = step
        # The best step of all is not worth its search: the next one mends what this one leaves.
        if best:
            break
    return best, tried


def _take(layout: Layout, longest: int, step: Step) -> None:
    _, _, load, tests = step.leave
    layout.remove(longest, load, tests)
    if step.back is not None:
        layout.remove(step.shard, step.back[2], step.back[3])
        layout.add(longest, step.back[2], step.back[3])
    layout.add(step.shard, load, tests)


def _partners(
    layout: Layout, longest: int, soonest_first: list[tuple[float, int]], *, most: int, anywhere_first: bool
) -> list[int]:
    """The shards that end soonest, of those that share a file with the longest one and of all.

    Tests go to the former without one set-up more; `anywhere_first`, the latter, takes fewer looks.
    """
    found: dict[int, None] = {}
    fellows = {shard for number in layout.content[longest] for shard in layout.touched[number]}
    for shard in heapq.nsmallest(most, fellows, key=lambda one: (layout.time(one), one)):
        found[shard] = None
    kept: list[tuple[float, int]] = []
    seen: set[int] = set()
    while soonest_first and len(kept) < most:
        row = heapq.heappop(soonest_first)
        if row[0] == layout.time(row[1]) and row[1] not in seen:
            kept.append(row)
            seen.add(row[1])
    for row in kept:
        heapq.heappush(soonest_first, row)
        found.setdefault(row[1])
    if anywhere_first:
        found = dict.fromkeys([row[1] for row in kept] + list(found))
    found.pop(longest, None)
    return list(found)


def _steps(layout: Layout, giver: int, taker: int) -> Iterator[Step]:
    """Moves from one shard to another, and swaps that come near to making both equal."""
    gap = layout.work[giver] - layout.work[taker]
    leave = _items(layout, giver, taker)
    back = sorted(_items(layout, taker, giver))
    for item in leave:
        peak = _peak(layout, giver, taker, item, None)
        if peak is not None:
            yield Step(peak=peak, shard=taker, leave=item)
        wanted = (item[0] + item[1] - gap) / 2
        at = bisect_left(back, (wanted,))
        for other in back[max(at - 1, 0) : at + 1]:
            peak = _peak(layout, giver, taker, item, other)
            if peak is not None:
                yield Step(peak=peak, shard=taker, leave=item, back=other)


def _items(layout: Layout, giver: int, taker: int) -> list[Item]:
    """What could go from one shard to another: all of a file, one test of it, or two where there are few."""
    items: list[Item] = []
    for number, tests in layout.content[giver].items():
        if not layout.takes(taker, number):
            continue
        load = layout.loads[number]
        shared = number in layout.content[taker]
        setup = 0.0 if shared else load.setup_s
        seconds = load.seconds
        total = sum(map(seconds.__getitem__, tests)) if len(tests) <= MAX_SINGLES else -1.0
        if total >= 0:
            items.append((total + load.setup_s, total + setup, number, tuple(tests)))
        if len(tests) > 1:
            items += [
                (seconds[test], seconds[test] + setup, number, (test,)) for test in _singles(seconds, tests)
            ]
        for some in _several(seconds, tests):
            both = sum(map(seconds.__getitem__, some))
            items.append((both, both + setup, number, some))
    return items


def _several(seconds: Sequence[float], tests: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Two tests where there are few, several of the same length where there are few lengths; never all."""
    if len(tests) > MAX_FOR_SEVERAL:
        return
    same: dict[float, list[int]] = {}
    for test in tests:
        same.setdefault(seconds[test], []).append(test)
    if len(same) <= MAX_LENGTHS:
        for alike in same.values():
            for count in range(2, min(MAX_ALIKE, len(alike), len(tests) - 1) + 1):
                yield tuple(alike[:count])
    if len(tests) <= MAX_FOR_TWO:
        firsts = [test for alike in same.values() for test in alike[:1]]
        for pair in combinations(firsts, 2):
            if len(tests) > len(pair):
                yield pair


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
