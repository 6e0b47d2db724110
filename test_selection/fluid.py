"""Packing files into shards as if tests could be cut anywhere: which shard takes how much of which file.

A packing is made by best fit decreasing, and repaired by ruin and recreate (Schrimpf, Schneider,
Stamm-Wilbrandt and Dueck, Journal of Computational Physics 159, 2000): what the longest shard and a few
others hold is put together, so that a file that was cut between them need not be any more, and is packed anew
in an order that is shaken a little, as long as that makes the longest shorter.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from test_selection.bound import ROUNDING, least
from test_selection.limits import Cards
from test_selection.loads import FileLoad

# Tests of a file that differ by so little are counted, rather than poured.
ALIKE = 1.03
# Where so many fit, counting them wins nothing.
MANY = 10_000


def grain(load: FileLoad) -> float:
    """Seconds of each test of a file whose tests take about the same; 0 where they differ."""
    return load.total_s / len(load.seconds) if load.seconds[0] <= ALIKE * load.seconds[-1] else 0.0


def whole_grains(load: FileLoad, room: float) -> float:
    """Seconds of whole tests that `room` has place for, where a file's tests are alike."""
    one = grain(load)
    return math.floor(room / one + ROUNDING) * one if 0 < room < one * MANY else room


# Where a limit stands is found this exactly; whole tests are rarely finer.
SEARCH_TOLERANCE = 2e-4

# Seconds of each file, by its place in the loads.
Pieces = dict[int, float]


class Packing:
    """Shards being filled up to `limit` seconds each, by best fit decreasing.

    Args:
        loads: all files.
        cards: a shard each, or several to a shard of wide tests.
        limit: seconds of a card.
        max_files: at most so many a shard.
        pieces: by a file's place in the loads, the seconds of it to place; None: all of every file.
        shaken: the factor of a file's seconds by which the order goes; 1 where it is not listed.

    Attributes:
        shares: for each shard in use, the seconds it is to take of each file.
        widths: how many cards each shard in use holds.
        speeds: the factor of each shard in use.
    """

    def __init__(
        self,
        loads: Sequence[FileLoad],
        cards: Cards,
        limit: float,
        max_files: int | None = None,
        *,
        pieces: Mapping[int, float] | None = None,
        shaken: Mapping[int, float] | None = None,
    ) -> None:
        self.loads = loads
        self._pieces = (
            {number: load.total_s for number, load in enumerate(loads)} if pieces is None else pieces
        )
        self._shaken = shaken or {}
        self.limit = limit
        self.max_files = max_files
        self.shares: list[Pieces] = []
        self.widths: list[int] = []
        self.speeds: list[float] = []
        self._left = cards.left()
        # (room in seconds of work, shard) of the shards that can take more.
        self._rooms: list[tuple[float, int]] = []

    def pack(self) -> bool:
        """Place every file, widest first: what is narrower may use the room wider shards have left."""
        rows: dict[int, list[int]] = {}
        for number in self._pieces:
            rows.setdefault(self.loads[number].cards, []).append(number)
        return all(self._pack_width(width, rows[width]) for width in sorted(rows, reverse=True))

    def close(self) -> None:
        """Open a shard on every card that is left, with nothing to do."""
        while self._left.count > 0:
            self._open(1)

    def _pack_width(self, width: int, numbers: Sequence[int]) -> bool:
        rest: list[tuple[float, int, float]] = []
        for number in numbers:
            load = self.loads[number]
            left = self._pieces[number]
            while True:
                speed = self._left.best_speed(width)
                capacity = whole_grains(load, self.limit * speed - load.setup_s)
                if left <= capacity * (1 + ROUNDING) or capacity <= 0:
                    break
                self._open(width)
                self.shares[-1][number] = capacity
                left -= capacity
            rest.append((-(load.setup_s + left) * self._shaken.get(number, 1.0), number, left))
        return all(self._place(number, left, width) for _, number, left in sorted(rest))

    def _open(self, width: int) -> float:
        speed = self._left.take(width)
        self.shares.append({})
        self.widths.append(width)
        self.speeds.append(speed)
        return self.limit * speed

    def _place(self, number: int, left: float, width: int) -> bool:
        """Put what is left of a file where it fits best; cut it only where no shard takes it whole."""
        load = self.loads[number]
        setup = load.setup_s
        slack = ROUNDING * self.limit
        rooms = self._rooms
        while True:
            whole = setup + left - slack
            at = bisect_left(rooms, (whole, -1))
            speed = self._left.best_speed(width)
            fresh = speed * self.limit
            # What no open shard takes whole goes to a fresh one, unless an open one takes more of it.
            if at == len(rooms) and speed > 0 and (fresh >= whole or not rooms or fresh >= rooms[-1][0]):
                room, shard = self._open(width), len(self.shares) - 1
            elif rooms:
                room, shard = rooms.pop(min(at, len(rooms) - 1))
            else:
                return False
            taken = left if room >= whole else whole_grains(load, room - setup)
            if taken <= slack and room < whole:
                return False
            shares = self.shares[shard]
            shares[number] = shares.get(number, 0.0) + taken
            if self.max_files is None or len(shares) < self.max_files:
                insort(rooms, (room - setup - taken, shard))
            left -= taken
            if left <= slack:
                return True


def pack(
    loads: Sequence[FileLoad], cards: Cards, bound: float, max_files: int | None = None
) -> Packing | None:
    """Pack within the least limit that best fit decreasing finds room in.

    Returns:
        A packing with a shard for every card, or None where `max_files` leaves no room at any limit.
    """

    def packed(limit: float) -> Packing | None:
        one = Packing(loads, cards, limit, max_files)
        return one if one.pack() else None

    plain = not cards.speeds and max_files is None and all(load.cards == 1 for load in loads)
    if not plain and packed(_ample(loads, cards)) is None:
        return None
    limit = least(lambda limit: packed(limit) is not None, bound, tolerance=SEARCH_TOLERANCE)
    found = packed(limit)
    if found is not None:
        found.close()
    return found


def _ample(loads: Sequence[FileLoad], cards: Cards) -> float:
    """A limit at which everything fits onto the slowest shard."""
    slowest = cards.speeds[-1] if cards.speeds else 1.0
    return 2 * sum(load.whole_s for load in loads) / slowest + 1


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


class _Shards:
    """What each shard of a packing holds, and when it ends."""

    def __init__(self, packing: Packing) -> None:
        self.loads = packing.loads
        self.held = list(packing.shares)
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
        pieces = gathered(shards.held[shard] for shard in group)
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
            shards.put(shard, shares)
            heapq.heappush(longest_first, (-shards.ends[shard], shard))
    packing.shares = shards.held


def _draws(seed: int) -> Iterator[float]:
    """Numbers from 0 up to 1, the same in every run: neither secret nor of any statistical claim."""
    state = seed
    while True:
        state = (state * MULTIPLIER + INCREMENT) % MODULUS
        yield (state >> 32) / (1 << 32)


def gathered(some: Iterable[Mapping[int, float]]) -> Pieces:
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
