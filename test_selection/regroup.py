"""Evening out groups of shards: files move between groups, and groups split, before anything is cut.

Join a shard and a file wherever the shard holds a part of the file. A connected group of a shards and b files
need hold no more than a + b - 1 parts: its files are laid along its shards, and at each of the a - 1 borders
one of them is cut and pays its set-up once more. So what a packing costs is which files stand together over
how many shards, and a group's level, the seconds of its files with their set-ups and cuts over its shards, is
known before it is laid. The highest level is lowered by exchanging files with another group.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from test_selection.bound import ROUNDING
from test_selection.cards import Cards
from test_selection.draws import Draws
from test_selection.fluid import Packing, pack
from test_selection.laying import lay
from test_selection.loads import FileLoad

# Exchanges weighed at most, about a second's worth.
MAX_TRIED, TRIED_AT_LEAST = 300_000, 10
# Two files go at once where a group has no more than this many.
MAX_FOR_TWO = 16
# Groups are put together for no gain so often, and bundles of so many groups are kept.
MERGED = 0.05
MAX_BUNDLED = 5000
# How much worse an exchange may be and still be made, in parts of the limit, at the start.
HEAT = 0.02
# The part of all looks after which none is made that is worse.
COLD = 0.8

Files = tuple[int, ...]
Bundle = tuple[float, Files]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Files that stand together, over how many shards, and the seconds too many for the limit."""

    files: Files
    shards: int
    excess: float

    @property
    def over(self) -> float:
        """Seconds too many; 0 where there is room."""
        return max(0.0, self.excess)


EMPTY = Group(files=(), shards=0, excess=0.0)


class Regrouping:
    """The groups of a packing, and the exchanges between them that bring all within a limit."""

    def __init__(
        self,
        loads: Sequence[FileLoad],
        limit: float,
        groups: Sequence[tuple[Files, int]],
        *,
        thinly: bool = False,
    ) -> None:
        """`thinly` takes it that the cheapest file may be cut at every border, beside whole ones."""
        self.loads = loads
        self.thinly = thinly
        self.limit = limit
        self.whole = [load.whole_s for load in loads]
        self.setups = [load.setup_s for load in loads]
        # A file of k full shards and a rest is cut k times, whatever stands beside it.
        self.forced = [full_shards(load, limit) for load in loads]
        self.forced_s = [times * setup for times, setup in zip(self.forced, self.setups, strict=True)]
        self.groups = [self._group(files, shards) for files, shards in groups]
        self._random = Draws(len(self.groups))
        self._tried = 0
        self._bundled: dict[Files, list[Bundle]] = {}

    def _group(self, files: Files, shards: int) -> Group:
        if not shards:
            return EMPTY if not files else Group(files=files, shards=0, excess=math.inf)
        total = sum(map(self.whole.__getitem__, files)) + self._cuts(files, shards)
        return Group(files=files, shards=shards, excess=total - shards * self.limit)

    def _cuts(self, files: Files, shards: int) -> float:
        """Set-ups of the cuts at the borders: those of files longer than a shard, and the cheapest others."""
        paid = sum(map(self.forced_s.__getitem__, files))
        left = shards - 1 - sum(map(self.forced.__getitem__, files))
        if left <= 0 or not files:
            return paid
        if self.thinly:
            return paid + left * min(map(self.setups.__getitem__, files))
        cheapest = sorted(map(self.setups.__getitem__, files))
        if left < len(cheapest):
            return paid + sum(cheapest[:left])
        return paid + sum(cheapest) + (left - len(cheapest)) * cheapest[0]

    def run(self) -> float:
        """Exchange files until no group has too many seconds or the looks are spent; those left."""
        best, least = list(self.groups), math.inf
        while self._tried < MAX_TRIED and self.groups:
            over = sum(one.over for one in self.groups)
            if over < least:
                best, least = list(self.groups), over
            crowded = [at for at, one in enumerate(self.groups) if one.excess > 0]
            if not crowded:
                break
            # Finding the crowded groups takes as long as trying one, so several are tried at a time.
            for _ in range(max(4, len(crowded) // 2)):
                at = self._random.choice(crowded)
                if at < len(self.groups) and self.groups[at].excess > 0 and self._try(at):
                    break
        self.groups = best
        return least

    def _try(self, at: int) -> bool:
        """Exchange files with another group, or split; whether a group is gone with that."""
        # A lone group has nobody to exchange with, and the search is to end.
        self._tried += TRIED_AT_LEAST
        rnd = self._random
        other = rnd.below(len(self.groups) + 1)
        one = self.groups[at]
        two = self.groups[other] if other < len(self.groups) else EMPTY
        if other == at or (two is EMPTY and one.shards == 1):
            return False
        found = self._best(one, two)
        if found is None:
            return False
        worse = sum(new.over for new in found) - one.over - two.over
        heat = HEAT * self.limit * max(0.0, 1 - self._tried / MAX_TRIED / COLD)
        if worse > 0 and worse > heat * rnd.heat():
            return False
        self._put(at, other, found)
        return len(found) == 1

    def _put(self, at: int, other: int, found: tuple[Group, ...]) -> None:
        if other == len(self.groups):
            self.groups.append(EMPTY)
        self.groups[at], *rest = found
        if rest:
            self.groups[other] = rest[0]
        else:
            self.groups[other] = self.groups[-1]
            self.groups.pop()

    def _best(self, one: Group, two: Group) -> tuple[Group, ...] | None:
        """What becomes of two groups: the best exchange, or both together where that is better."""
        made = self._exchanged(one, two)
        least = sum(new.over for new in made) if made else math.inf
        if two.files and (one.excess + two.excess < 0 or self._random.part() < MERGED):
            merged = self._group(tuple(sorted(one.files + two.files)), one.shards + two.shards)
            if merged.over < least:
                return (merged,)
        return made

    def _exchanged(self, one: Group, two: Group) -> tuple[Group, ...] | None:
        """The exchange of up to two files each way, and of shards, that leaves least too much."""
        here, there = (sum(map(self.whole.__getitem__, group.files)) for group in (one, two))
        cut = min(self.setups[file] for file in one.files + two.files)
        leave, back = self._bundles(one.files), self._bundles(two.files)
        sums = [row[0] for row in back]
        best: tuple[float, int, Files, Files] = (math.inf, 0, (), ())
        for moved in (0, 1, -1) if two.shards else (1, 2):
            stays, gets = one.shards - moved, two.shards + moved
            if stays < 1 or gets < 1:
                continue
            # What must leave, and what may at most.
            low = here - stays * (self.limit - cut) - cut
            high = gets * (self.limit - cut) + cut - there
            middle = min(low, (low + high) / 2)
            for seconds, gone in leave:
                near = bisect_right(sums, seconds - middle)
                for at in range(max(0, near - 1), min(near + 1, len(sums))):
                    self._tried += 1
                    net = seconds - sums[at]
                    cost = max(0.0, low - net) + max(0.0, net - high)
                    if cost < best[0] and (moved or gone or back[at][1]):
                        best = (cost, moved, gone, back[at][1])
        if math.isinf(best[0]):
            return None
        _, moved, gone, came = best
        first = tuple(sorted({*one.files, *came}.difference(gone)))
        second = tuple(sorted({*two.files, *gone}.difference(came)))
        return self._group(first, one.shards - moved), self._group(second, two.shards + moved)

    def _bundles(self, files: Files) -> list[Bundle]:
        rows = self._bundled.get(files)
        if rows is None:
            if len(self._bundled) > MAX_BUNDLED:
                self._bundled.clear()
            whole = self.whole
            rows = [(0.0, ()), *((whole[one], (one,)) for one in files)]
            if len(files) <= MAX_FOR_TWO:
                rows += [(whole[one] + whole[two], (one, two)) for one, two in combinations(files, 2)]
            rows.sort()
            self._bundled[files] = rows
        return rows


def components(packing: Packing) -> list[tuple[Files, int]]:
    """The connected groups of a packing: the files, ascending, and the number of shards of each."""
    by_file: list[list[int]] = [[] for _ in packing.loads]
    for shard, shares in enumerate(packing.shares):
        for number, _ in shares:
            by_file[number].append(shard)
    seen: set[int] = set()
    found = []
    for start in range(len(packing.shares)):
        if start in seen:
            continue
        seen.add(start)
        files: set[int] = set()
        queue = [start]
        for shard in queue:
            for number, _ in packing.shares[shard]:
                if number not in files:
                    files.add(number)
                    more = [one for one in by_file[number] if one not in seen]
                    seen.update(more)
                    queue += more
        found.append((tuple(sorted(files)), len(queue)))
    return found


def regroup(
    loads: Sequence[FileLoad], cards: Cards, bound: float, limit: float, *, thinly: bool = False
) -> Packing:
    """A packing on equal cards whose groups are brought within `limit` seconds a shard as far as possible.

    Best fit decreasing is where it starts.
    """
    made = Regrouping(loads, limit, seeds(loads, cards, bound), thinly=thinly)
    made.run()
    packing = Packing(loads, cards, limit)
    for group in made.groups:
        if not group.shards:
            continue
        level = limit + max(0.0, group.excess) / group.shards
        packing.shares += lay(loads, group.files, group.shards, level)
    packing.widths = [1] * len(packing.shares)
    packing.speeds = [1.0] * len(packing.shares)
    return packing


def seeds(loads: Sequence[FileLoad], cards: Cards, bound: float) -> list[tuple[Files, int]]:
    """Groups of files and their shards, all shards together, to start from."""
    packing = pack(loads, cards, bound)
    return components(packing) if packing is not None else []


def full_shards(load: FileLoad, limit: float) -> int:
    """How many shards a file fills besides its rest, however it is split."""
    room = limit - load.setup_s
    return max(0, math.ceil(load.total_s / room - ROUNDING) - 1) if room > 0 else 0
