"""A plan run on paper: cards claim pieces, event by event, on one drawn day.

Static, nobody helps; with the tail stolen, cards of one domain (a host of so many cards, or all of them)
claim each other's pieces by the policy of `test_selection.steal`. The policy sees what a card could see:
what was expected, what is unclaimed, and what ended pieces took; never the truth of what is to come.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from test_selection.plan import Plan
from test_selection.steal import (
    SLACK_S,
    Piece,
    Pool,
    Rest,
    choose_victim,
    cut_plan,
    piece_seconds,
    rebalance,
    scale,
)
from test_selection.world import Randomness, Truth, World, draw_truth, true_bound

STATIC = 1
TICKS_A_DAY = 400


class Segment(NamedTuple):
    """A piece on a card: whose shard it was of, when it was begun, set up, and ended, in seconds."""

    card: int
    shard: int
    piece: Piece
    starts_at: float
    ready_at: float
    ends_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a plan on one day.

    Attributes:
        makespan_s: when the last card ended.
        bound_s: no split could have ended sooner that day.
        busy: share of the cards' time until then that was spent on tests and set-up.
        not_run: ids no living card was left for.
        stolen: pieces run by a card whose shard they were not of.
        segments: every piece that ran, in the order of beginning.
    """

    makespan_s: float
    bound_s: float
    busy: float
    not_run: tuple[str, ...]
    stolen: int
    segments: tuple[Segment, ...]

    @property
    def ratio(self) -> float:
        """Makespan over the bound; 1 where there was nothing to do."""
        return self.makespan_s / self.bound_s if self.bound_s else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """A way to run a plan: cards of one domain steal from each other, `domain` of them; None for all."""

    name: str
    domain: int | None


def modes(hosts_of: int) -> tuple[Mode, ...]:
    """Static, stolen inside hosts of so many cards, and stolen across."""
    return (
        Mode(name="static", domain=STATIC),
        Mode(name=f"stolen in hosts of {hosts_of}", domain=hosts_of),
        Mode(name="stolen across hosts", domain=None),
    )


def simulate(
    plan: Plan,
    *,
    test_s: Mapping[str, float],
    file_s: Mapping[str, float],
    world: World,
    randomness: Randomness,
    ways: Sequence[Mode],
) -> list[Outcome]:
    """Run a plan on paper on one day drawn from `world`, in each of `ways`.

    Args:
        plan: a card a shard.
        test_s: seconds the plan expected of each test.
        file_s: set-up seconds it expected of each file.
        world: how far off that may be.
        randomness: a `random.Random` of the caller's seed.
        ways: each is run on the same day.
    """
    truth = draw_truth(plan, test_s=test_s, file_s=file_s, world=world, randomness=randomness)
    pieces = cut_plan(plan, test_s)
    bound = true_bound(plan, truth)
    tick = piece_seconds(plan)
    return [
        run_pieces(pieces, truth, world, file_s=file_s, domain=one.domain, tick_s=tick, bound_s=bound)
        for one in ways
    ]


def run_pieces(
    pieces: Sequence[Sequence[Piece]],
    truth: Truth,
    world: World,
    *,
    file_s: Mapping[str, float],
    domain: int | None,
    tick_s: float,
    bound_s: float,
) -> Outcome:
    """Run cut shards on one day; see `simulate`."""
    floor = _Floor(pieces, truth, world, file_s=file_s, domain=domain or len(pieces), tick_s=tick_s)
    floor.run()
    ends = max((segment.ends_at for segment in floor.segments), default=0.0)
    done = math.fsum(segment.ends_at - segment.starts_at for segment in floor.segments)
    return Outcome(
        makespan_s=ends,
        bound_s=bound_s,
        busy=done / (ends * len(pieces)) if ends else 0.0,
        not_run=tuple(floor.left_over()),
        stolen=sum(segment.card != segment.shard for segment in floor.segments),
        segments=tuple(floor.segments),
    )


class _Floor:
    """The cards, what is unclaimed of each shard, and what everybody has learnt so far."""

    def __init__(
        self,
        pieces: Sequence[Sequence[Piece]],
        truth: Truth,
        world: World,
        *,
        file_s: Mapping[str, float],
        domain: int,
        tick_s: float,
    ) -> None:
        self.truth, self.world, self.file_s = truth, world, file_s
        self.domain, self.tick_s = domain, tick_s
        cards = len(pieces)
        self.queues = [_queue(one) for one in pieces]
        self.rest: list[dict[str, float]] = [_by_file(one) for one in pieces]
        self.holds: list[str | None] = [None] * cards
        self.busy_until = [0.0] * cards
        self.started = [False] * cards
        self.known_dead = [False] * cards
        self.took: dict[str, float] = {}
        self.card_took = [0.0] * cards
        self.card_expected = [0.0] * cards
        self.expected: dict[str, float] = {}
        self.left = sum(len(one) for one in pieces)
        self.idle: list[int] = []
        self.segments: list[Segment] = []
        # By (domain, file of the last piece): (-expected end, shard), as of the last tick.
        self.late: dict[tuple[int, str], list[tuple[float, int]]] = {}
        self.orphans: dict[tuple[int, str], list[tuple[float, int]]] = {}
        self.wanted: dict[int, dict[str, int]] = {}
        self.ends: dict[int, dict[str, float]] = {}
        self.common_end: dict[int, float] = {}
        self.at: dict[tuple[int, str], int] = {}
        self.spared: dict[tuple[int, str], int] = {}
        self.left_own = [False] * cards
        self.ticking = self.stuck = False
        self.claimed_at_tick = 0
        self.returned: list[Piece] = []
        self.events: list[tuple[float, int, int]] = [
            (start, card, 0) for card, start in enumerate(truth.starts_at)
        ]
        heapq.heapify(self.events)

    def run(self) -> None:
        """Until nothing happens any more."""
        if self.domain > STATIC and self.left:
            self.ticking = True
            heapq.heappush(self.events, (self.tick_s, -1, 0))
        while self.events:
            now, card, lost = heapq.heappop(self.events)
            if card < 0:
                self.tick(now)
            elif lost:
                self.notice(card, lost - 1, now)
            elif now < self.truth.dies_at[card]:
                self.next_piece(card, now)
            else:
                heapq.heappush(self.events, (now + self.world.notice_s, card, 1))

    def left_over(self) -> Iterator[str]:
        """The ids nobody ran."""
        for queue in self.queues:
            for group in queue:
                for piece in group:
                    yield from piece.ids

    def tick(self, now: float) -> None:
        """Look at every shard anew, and let the idle cards ask again."""
        self.late.clear()
        self.orphans.clear()
        for shard, queue in enumerate(self.queues):
            if queue:
                key = (shard // self.domain, queue[-1][0].file)
                self.late.setdefault(key, []).append((-self.ends_at(shard, now), shard))
                if self.left_own[shard] or self.known_dead[shard]:
                    self.orphans.setdefault(key, []).append((-queue[-1][0].expected_s, shard))
        for heap in (*self.late.values(), *self.orphans.values()):
            heapq.heapify(heap)
        self.plan_moves(now)
        self.stuck = not self.events
        idle, self.idle = self.idle, []
        for card in idle:
            heapq.heappush(self.events, (now, card, 0))
        # Nobody is at work: who waits takes what there is, and if that changes nothing, nothing will.
        over = self.stuck and self.claimed_at_tick == len(self.segments)
        self.ticking = bool(self.left) and not over
        if self.ticking:
            # A day far longer than planned is looked at less often.
            heapq.heappush(self.events, (now + max(self.tick_s, now / TICKS_A_DAY), -1, 0))
        self.claimed_at_tick = len(self.segments)

    def plan_moves(self, now: float) -> None:
        """Ask the policy, domain by domain, which files want cards and which can spare some."""
        self.wanted.clear()
        self.spared.clear()
        idle: dict[int, int] = {}
        for card in self.idle:
            idle[card // self.domain] = idle.get(card // self.domain, 0) + 1
        for home, pools in self.pools(now).items():
            self.at.update({(home, pool.file): pool.cards for pool in pools})
            waiting = idle.get(home, 0)
            if not waiting and not any(pool.leavers for pool in pools):
                continue
            moves = rebalance(pools, waiting, now)
            self.common_end[home] = moves.end_s
            self.wanted[home] = dict(moves.wanted)
            self.ends[home] = {file: max(end, moves.end_s) for file, end in moves.ends.items()}
            self.spared.update({(home, file): count for file, count in moves.spared.items()})

    def pools(self, now: float) -> dict[int, list[Pool]]:
        """The files at the backs of shards, by domain."""
        rest: dict[tuple[int, str], float] = {}
        free: dict[tuple[int, str], list[float]] = {}
        leavers: dict[tuple[int, str], int] = {}
        idle = set(self.idle)
        for shard, queue in enumerate(self.queues):
            home = shard // self.domain
            if queue:
                last = queue[-1][0].file
                key = (home, last)
                rest[key] = rest.get(key, 0.0) + self.rest[shard][last] * self.scale(last)
                if not self.left_own[shard] and not self.known_dead[shard]:
                    free.setdefault(key, []).append(self.free_for(shard, last, now))
                    if self.holds[shard] == last and len(queue) == 1:
                        leavers[key] = leavers.get(key, 0) + 1
                    continue
            held = self.holds[shard]
            if held is not None and shard not in idle and not self.known_dead[shard]:
                key = (home, held)
                free.setdefault(key, []).append(max(self.busy_until[shard], now))
                leavers[key] = leavers.get(key, 0) + 1
        found: dict[int, list[Pool]] = {}
        for (home, file), seconds in rest.items():
            at = free.get((home, file), [])
            found.setdefault(home, []).append(
                Pool(
                    file=file,
                    rest_s=seconds,
                    cards=len(at),
                    free_s=sum(at),
                    leavers=leavers.get((home, file), 0),
                    setup_s=self.file_s.get(file, 0.0),
                )
            )
        return found

    def free_at(self, card: int, now: float) -> float:
        """When a card is through with its piece; one that has not started is given as long again."""
        return max(self.busy_until[card], now) if self.started[card] else 2 * now

    def free_for(self, shard: int, last: str, now: float) -> float:
        """When the owner of a shard is through with all but its last file, which it has set up then."""
        seconds = self.setup_for(shard, last)
        for file, rest in self.rest[shard].items():
            if rest > SLACK_S and file != last:
                seconds += rest * self.scale(file) + self.setup_for(shard, file)
        return self.free_at(shard, now) + seconds * self.pace(shard)

    def notice(self, card: int, lost: int, now: float) -> None:
        """A card is known to be dead: what it had claimed is unclaimed again."""
        self.known_dead[card] = True
        if lost:
            piece = self.returned[lost - 1]
            self.queues[card].append(deque([piece]))
            self.rest[card][piece.file] = self.rest[card].get(piece.file, 0.0) + piece.expected_s
            self.left += 1
        if self.domain > STATIC and not self.ticking:
            self.ticking = True
            heapq.heappush(self.events, (now, -1, 0))

    def next_piece(self, card: int, now: float) -> None:
        """Go where cards are wanted if this one can be spared, else claim its own next piece, else steal."""
        self.started[card] = True
        own = not self.left_own[card] and bool(self.queues[card])
        if own and self.comes_late(card, now):
            self.left_own[card], own = True, False
        if self.domain > STATIC and self.left and self.may_leave(card, own=own):
            victim = self.wanted_at(card, now)
            if victim is not None:
                self.spared[card // self.domain, self.holds[card] or ""] -= 1
                self.left_own[card] = True
                self.claim(card, victim, _take(self.queues[victim], -1), now)
                return
        if own:
            victim = self.orphan(card, longer_than=self.queues[card][0][0].expected_s)
            if victim is None:
                self.claim(card, card, _take(self.queues[card], 0), now)
                return
        elif self.domain > STATIC:
            victim = self.stolen_from(card, now)
        else:
            return
        if victim is None:
            self.idle.append(card)
        else:
            self.claim(card, victim, _take(self.queues[victim], -1), now)

    def stolen_from(self, card: int, now: float) -> int | None:
        """The shard an idle card claims from: of its own file, else where it is wanted, else nowhere."""
        shard = self.victim(card, now)
        if shard is None:
            shard = self.wanted_at(card, now)
        if shard is not None or not self.stuck:
            return shard
        home = card // self.domain
        neighbours = range(home * self.domain, min((home + 1) * self.domain, len(self.queues)))
        return next((one for one in neighbours if self.queues[one]), None)

    def orphan(self, card: int, longer_than: float) -> int | None:
        """A shard without an owner whose next piece is longer and of the file the card is at, if any."""
        heap = self.orphans.get((card // self.domain, self.holds[card] or ""), [])
        while heap:
            negated, shard = heap[0]
            queue = self.queues[shard]
            if not queue or queue[-1][0].file != self.holds[card]:
                heapq.heappop(heap)
            elif queue[-1][0].expected_s < -negated:
                heapq.heapreplace(heap, (-queue[-1][0].expected_s, shard))
            else:
                return shard if -negated > longer_than else None
        return None

    def comes_late(self, card: int, now: float) -> bool:
        """Whether others are at the card's last file already, and would end before it had set the file up."""
        queue, key = self.queues[card], (card // self.domain, self.queues[card][0][0].file)
        if len(queue) > 1 or self.holds[card] == key[1] or self.at.get(key, 0) <= 1:
            return False
        if choose_victim([self.seen(card, card, self.common_end.get(key[0], math.inf))], now):
            return False
        self.at[key] -= 1
        return True

    def may_leave(self, card: int, *, own: bool) -> bool:
        """Whether the file a card has set up can spare it, and the card has nothing else of its own."""
        held = self.holds[card]
        if held is None or not self.spared.get((card // self.domain, held), 0):
            return False
        queue = self.queues[card]
        return not own or (len(queue) == 1 and queue[0][0].file == held)

    def wanted_at(self, card: int, now: float) -> int | None:
        """A shard whose last file wants a card and gains by this one; the place is taken then."""
        home = card // self.domain
        wanted = self.wanted.get(home, {})
        for file in list(wanted):
            shard = self.latest(self.late.get((home, file), []), file)
            if shard is None:
                del wanted[file]
            elif choose_victim([self.seen(shard, card, self.ends[home][file])], now):
                wanted[file] -= 1
                if not wanted[file]:
                    del wanted[file]
                return shard
        return None

    def seen(self, shard: int, card: int, ends_at: float) -> Rest:
        """What is left of a shard, as a card sees it."""
        piece = self.queues[shard][-1][0]
        return Rest(
            shard=shard,
            file=piece.file,
            piece_s=piece.expected_s * self.scale(piece.file) * self.pace(card),
            ends_at=ends_at,
            setup_s=self.setup_for(card, piece.file) * self.pace(card),
        )

    def claim(self, card: int, shard: int, piece: Piece, now: float) -> None:
        """Run a piece on a card, until its end or the card's."""
        self.left -= 1
        rest = self.rest[shard]
        rest[piece.file] -= piece.expected_s
        speed, file = self.truth.speeds[card], piece.file
        begun = now + (self.world.claim_s if self.domain > STATIC else 0.0)
        ready = begun + (0.0 if self.holds[card] == file else self.truth.setup_s[file] / speed)
        seconds, crashed = self.true_seconds(piece)
        ends = ready + seconds / speed
        setup_expected, expected = self.setup_for(card, file), piece.expected_s * self.scale(file)
        self.busy_until[card] = begun + setup_expected * self.pace(card) + expected * self.pace(card)
        self.holds[card] = None if crashed else file
        if ends > self.truth.dies_at[card]:
            self.die(card, shard, piece, begun, ready)
            return
        self.segments.append(Segment(card, shard, piece, begun, ready, ends))
        self.took[file] = self.took.get(file, 0.0) + (ends - ready) / self.pace(card)
        self.card_took[card] += ends - begun
        self.card_expected[card] += setup_expected + expected
        self.expected[file] = self.expected.get(file, 0.0) + piece.expected_s
        heapq.heappush(self.events, (ends, card, 0))

    def die(self, card: int, shard: int, piece: Piece, begun: float, ready: float) -> None:
        """The card dies on the way: what ended before counts, the rest is unclaimed once that is noticed."""
        dies = self.truth.dies_at[card]
        done, at = 0, ready
        for name in piece.ids:
            at += self.truth.test_s[name] / self.truth.speeds[card]
            if at > dies:
                break
            done += 1
            if name in self.truth.crashes:
                at += self.truth.setup_s[piece.file] / self.truth.speeds[card]
        share = done / len(piece.ids)
        ended = Piece(file=piece.file, ids=piece.ids[:done], expected_s=piece.expected_s * share)
        if begun < dies:
            self.segments.append(Segment(card, shard, ended, begun, min(ready, dies), dies))
        rest = piece.ids[done:]
        if rest:
            self.returned.append(Piece(file=piece.file, ids=rest, expected_s=piece.expected_s * (1 - share)))
        heapq.heappush(self.events, (dies + self.world.notice_s, card, len(self.returned) + 1 if rest else 1))

    def true_seconds(self, piece: Piece) -> tuple[float, bool]:
        """Seconds of a piece on a card of speed 1, crashes included, and whether its last test crashed."""
        test_s, crashes = self.truth.test_s, self.truth.crashes
        seconds = math.fsum([test_s[name] for name in piece.ids])
        if not crashes:
            return seconds, False
        last = piece.ids[-1] in crashes
        again = sum(name in crashes for name in piece.ids) - last
        return seconds + again * self.truth.setup_s[piece.file], last

    def scale(self, file: str) -> float:
        return scale(self.took.get(file, 0.0), self.expected.get(file, 0.0), self.tick_s)

    def pace(self, card: int) -> float:
        """By how much a card is slower than expected, so far."""
        return scale(self.card_took[card], self.card_expected[card], self.tick_s)

    def setup_for(self, card: int, file: str) -> float:
        return 0.0 if self.holds[card] == file else self.file_s.get(file, 0.0)

    def ends_at(self, shard: int, now: float) -> float:
        """When a shard is expected to end if nobody helps; never, where its card is known to be dead."""
        if self.known_dead[shard] or self.left_own[shard]:
            return math.inf
        seconds = 0.0
        for file, rest in self.rest[shard].items():
            if rest > SLACK_S:
                seconds += rest * self.scale(file) + self.setup_for(shard, file)
        return self.free_at(shard, now) + seconds * self.pace(shard)

    def victim(self, card: int, now: float) -> int | None:
        """Ask the policy for the shard to claim from, among those whose last file the card has set up."""
        file = self.holds[card]
        if file is None:
            return None
        if (shard := self.orphan(card, longer_than=-1.0)) is not None:
            return shard
        shard = self.latest(self.late.get((card // self.domain, file), []), file, now)
        if shard is None:
            return None
        return (
            None if choose_victim([self.seen(shard, card, self.ends_at(shard, now))], now) is None else shard
        )

    def latest(self, heap: list[tuple[float, int]], file: str, now: float | None = None) -> int | None:
        """The shard of a heap that ends last; entries may be old, and those with nothing left are dropped."""
        while heap:
            negated, shard = heap[0]
            queue = self.queues[shard]
            if not queue or queue[-1][0].file != file:
                heapq.heappop(heap)
                continue
            if now is not None and -negated > (ends := self.ends_at(shard, now)) + 1e-9:
                heapq.heapreplace(heap, (-ends, shard))
                continue
            return shard
        return None


# The unclaimed pieces of a shard, by group in the order of running; no group is empty.
_Queue = deque[deque[Piece]]


def _queue(pieces: Sequence[Piece]) -> _Queue:
    return deque(deque(group) for _, group in groupby(pieces, key=lambda piece: piece.file))


def _take(queue: _Queue, end: int) -> Piece:
    """The next piece of the first group (0) or of the last (-1)."""
    piece = queue[end].popleft()
    if not queue[end]:
        del queue[end]
    return piece


def _by_file(pieces: Sequence[Piece]) -> dict[str, float]:
    rest: dict[str, float] = {}
    for piece in pieces:
        rest[piece.file] = rest.get(piece.file, 0.0) + piece.expected_s
    return rest
