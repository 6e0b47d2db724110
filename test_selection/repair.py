"""Repairing a packing: the longest shard is packed anew with a few others, as long as that makes it shorter.

Ruin and recreate (Schrimpf, Schneider, Stamm-Wilbrandt and Dueck, Journal of Computational Physics 159,
2000): what a few shards hold is put together, so that a file that was cut between them need not be any more,
and is packed by best fit in an order that is shaken a little.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from test_selection.fluid import Packing
from test_selection.limits import Cards

# Shards that are packed anew at a time, the longest included.
FEWEST, MOST = 2, 6
# How much the order of pieces is shaken: by so much of their seconds at most.
SHAKEN = (0.0, 0.1, 0.3, 0.8)
# The limit lies between the mean of the shards and the longest one, this near to it at most.
NEAR = 0.95

# So many steps in vain for each shard there is, and the few ways to pack few shards have been seen.
IN_VAIN = 150

# Knuth's multiplier and increment, MMIX (The Art of Computer Programming, volume 2, 3.3.4).
MULTIPLIER, INCREMENT, MODULUS = 6364136223846793005, 1442695040888963407, 1 << 64

# Seconds of each file, by its place in the loads.
Pieces = dict[int, float]


class _Shards:
    """What each shard of a packing holds, and when it ends."""

    def __init__(self, packing: Packing) -> None:
        self.loads = packing.loads
        self.held: list[Pieces] = [gathered([dict([share]) for share in one]) for one in packing.shares]
        self.ends = [self.seconds(held) for held in self.held]
        self.holders: list[set[int]] = [set() for _ in self.loads]
        for shard, held in enumerate(self.held):
            for number in held:
                self.holders[number].add(shard)

    def seconds(self, held: Mapping[int, float]) -> float:
        return sum(self.loads[number].setup_s + seconds for number, seconds in held.items())

    def put(self, shard: int, held: Pieces) -> None:
        for number in self.held[shard]:
            self.holders[number].discard(shard)
        for number in held:
            self.holders[number].add(shard)
        self.held[shard], self.ends[shard] = held, self.seconds(held)


def repair(packing: Packing, goal: float, steps: int, *, seed: int) -> None:
    """Pack the longest shard and a few others anew, until it ends within the goal; in place.

    Args:
        packing: of equal shards of one card.
        goal: seconds.
        steps: how often at most.
        seed: of the draws: another one finds another packing.
    """
    draw = partial(next, _draws(seed))
    shards = _Shards(packing)
    longest_first = [(-end, shard) for shard, end in enumerate(shards.ends)]
    heapq.heapify(longest_first)
    in_vain = 0
    for _ in range(steps):
        if in_vain > IN_VAIN * len(shards.held):
            break
        in_vain += 1
        while -longest_first[0][0] != shards.ends[longest_first[0][1]]:
            heapq.heappop(longest_first)
        peak, longest = -longest_first[0][0], longest_first[0][1]
        if peak <= goal:
            break
        group = _group(shards, longest, draw)
        pieces = gathered([shards.held[shard] for shard in group])
        level = max(goal, shards.seconds(pieces) / len(group))
        limit = level + (peak - level) * NEAR * draw()
        if limit >= peak:
            continue
        shaken = SHAKEN[int(draw() * len(SHAKEN))]
        order = {number: 1 + shaken * (2 * draw() - 1) for number in pieces}
        anew = Packing(shards.loads, Cards(count=len(group)), limit, pieces=pieces, shaken=order)
        if not anew.pack():
            continue
        in_vain = 0
        anew.close()
        for shard, shares in zip(group, anew.shares, strict=True):
            shards.put(shard, gathered([dict([share]) for share in shares]))
            heapq.heappush(longest_first, (-shards.ends[shard], shard))
    packing.shares = [list(held.items()) for held in shards.held]


def _draws(seed: int) -> Iterator[float]:
    """Numbers from 0 up to 1, the same in every run: neither secret nor of any statistical claim."""
    state = seed
    while True:
        state = (state * MULTIPLIER + INCREMENT) % MODULUS
        yield (state >> 32) / (1 << 32)


def gathered(some: Sequence[Mapping[int, float]]) -> Pieces:
    """The pieces of several shards, those of one file as one."""
    pieces: Pieces = {}
    for held in some:
        for number, seconds in held.items():
            pieces[number] = pieces.get(number, 0.0) + seconds
    return pieces


def _group(shards: _Shards, longest: int, draw: Callable[[], float]) -> list[int]:
    """The longest shard and a few others, every other time some that share a file with it."""
    count = min(FEWEST + int(draw() * (MOST - FEWEST + 1)), len(shards.held))
    group = {longest}
    if draw() < 0.5:  # noqa: PLR2004  # every other time
        fellows = sorted({one for number in shards.held[longest] for one in shards.holders[number]} - group)
        for _ in range(count // 2 if fellows else 0):
            group.add(fellows[int(draw() * len(fellows))])
    while len(group) < count:
        group.add(int(draw() * len(shards.held)))
    return sorted(group)
