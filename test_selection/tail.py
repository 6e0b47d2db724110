"""Who claims from whom between two ticks: the policy's answers, kept and asked anew as pieces are claimed."""

from __future__ import annotations

import heapq
import math

from test_selection.sight import Sight
from test_selection.steal import choose_victim, rebalance


class Tail:
    """What the policy said at the last tick: late shards, files that want cards and files that spare some."""

    def __init__(self, sight: Sight) -> None:
        self.sight = sight
        # By (domain, file of the last piece): (-expected end, shard), as of the last tick.
        self.late: dict[tuple[int, str], list[tuple[float, int]]] = {}
        self.orphans: dict[tuple[int, str], list[tuple[float, int]]] = {}
        self.wanted: dict[int, dict[str, int]] = {}
        self.ends: dict[int, dict[str, float]] = {}
        self.common_end: dict[int, float] = {}
        self.at: dict[tuple[int, str], int] = {}
        self.spared: dict[tuple[int, str], int] = {}

    def tick(self, now: float) -> None:
        """Look at every shard anew."""
        sight = self.sight
        self.late.clear()
        self.orphans.clear()
        for shard, queue in enumerate(sight.queues):
            if queue:
                key = (sight.home(shard), queue[-1][0].file)
                self.late.setdefault(key, []).append((-sight.ends_at(shard, now), shard))
                if sight.left_own[shard] or sight.known_dead[shard]:
                    self.orphans.setdefault(key, []).append((-queue[-1][0].expected_s, shard))
        for heap in (*self.late.values(), *self.orphans.values()):
            heapq.heapify(heap)
        self.plan_moves(now)

    def plan_moves(self, now: float) -> None:
        """Ask the policy, domain by domain, which files want cards and which can spare some."""
        self.wanted.clear()
        self.spared.clear()
        idle: dict[int, int] = {}
        for card in self.sight.idle:
            idle[self.sight.home(card)] = idle.get(self.sight.home(card), 0) + 1
        for home, pools in self.sight.pools(now).items():
            self.at.update({(home, pool.file): pool.cards for pool in pools})
            waiting = idle.get(home, 0)
            if not waiting and not any(pool.leavers for pool in pools):
                continue
            moves = rebalance(pools, waiting, now)
            self.common_end[home] = moves.end_s
            self.wanted[home] = dict(moves.wanted)
            self.ends[home] = {file: max(end, moves.end_s) for file, end in moves.ends.items()}
            self.spared.update({(home, file): count for file, count in moves.spared.items()})

    def orphan(self, card: int, longer_than: float) -> int | None:
        """A shard without an owner whose next piece is longer and of the file the card is at, if any."""
        heap = self.orphans.get((self.sight.home(card), self.sight.holds[card] or ""), [])
        while heap:
            negated, shard = heap[0]
            queue = self.sight.queues[shard]
            if not queue or queue[-1][0].file != self.sight.holds[card]:
                heapq.heappop(heap)
            elif queue[-1][0].expected_s < -negated:
                heapq.heapreplace(heap, (-queue[-1][0].expected_s, shard))
            else:
                return shard if -negated > longer_than else None
        return None

    def comes_late(self, card: int, now: float) -> bool:
        """Whether others are at the card's last file already, and would end before it had set the file up."""
        queue, key = self.sight.queues[card], (self.sight.home(card), self.sight.queues[card][0][0].file)
        if len(queue) > 1 or self.sight.holds[card] == key[1] or self.at.get(key, 0) <= 1:
            return False
        if choose_victim([self.sight.seen(card, card, self.common_end.get(key[0], math.inf))], now):
            return False
        self.at[key] -= 1
        return True

    def may_leave(self, card: int, *, own: bool) -> bool:
        """Whether the file a card has set up can spare it, and the card has nothing else of its own."""
        held = self.sight.holds[card]
        if held is None or self.sight.fresh[card] or not self.spared.get((self.sight.home(card), held), 0):
            return False
        queue = self.sight.queues[card]
        return not own or (len(queue) == 1 and queue[0][0].file == held)

    def leave(self, card: int) -> None:
        """A card that can be spared goes, and comes back to its shard no more."""
        self.spared[self.sight.home(card), self.sight.holds[card] or ""] -= 1
        self.sight.left_own[card] = True

    def wanted_at(self, card: int, now: float) -> int | None:
        """A shard whose last file wants a card and gains by this one; the place is taken then."""
        home = self.sight.home(card)
        wanted = self.wanted.get(home, {})
        for file in list(wanted):
            shard = self.latest(self.late.get((home, file), []), file)
            if shard is None:
                del wanted[file]
            elif choose_victim([self.sight.seen(shard, card, self.ends[home][file])], now):
                wanted[file] -= 1
                if not wanted[file]:
                    del wanted[file]
                return shard
        return None

    def victim(self, card: int, now: float) -> int | None:
        """Ask the policy for the shard to claim from, among those whose last file the card has set up."""
        file = self.sight.holds[card]
        if file is None:
            return None
        if (shard := self.orphan(card, longer_than=-1.0)) is not None:
            return shard
        shard = self.latest(self.late.get((self.sight.home(card), file), []), file, now)
        if shard is None:
            return None
        return (
            None
            if choose_victim([self.sight.seen(shard, card, self.sight.ends_at(shard, now))], now) is None
            else shard
        )

    def latest(self, heap: list[tuple[float, int]], file: str, now: float | None = None) -> int | None:
        """The shard of a heap that ends last; entries may be old, and those with nothing left are dropped."""
        while heap:
            negated, shard = heap[0]
            queue = self.sight.queues[shard]
            if not queue or queue[-1][0].file != file:
                heapq.heappop(heap)
                continue
            if now is not None and -negated > (ends := self.sight.ends_at(shard, now)) + 1e-9:
                heapq.heapreplace(heap, (-ends, shard))
                continue
            return shard
        return None
