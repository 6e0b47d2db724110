"""A plan run on paper: cards claim pieces, event by event, on one drawn day.

Static, nobody helps; with work stealing, cards of one host (of so many cards, or of all of them) claim each
other's pieces by the policy of `test_selection.work_stealing`, and each host is simulated by itself. The
policy sees what a card could see: what was expected, what is unclaimed, and what ended pieces took; never the
truth of what is to come.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from test_selection.pieces import Piece, cut_plan, piece_seconds
from test_selection.plan import Plan
from test_selection.scheduler_view import SchedulerView
from test_selection.simulated_day import Truth, true_bound
from test_selection.work_stealing import StealingPolicy

STATIC = 1
TICKS_A_DAY = 400
# Seconds that a claim of a piece takes, and until the others see that a card is dead.
CLAIM_S, NOTICE_S = 0.01, 10.0
# So much of a piece says as much of how far off estimates are as the estimates themselves.
PRIOR_SHARE = 0.3
# What happens, in the order in which it does at one moment: `TICK` is nobody's.
ASKS, NOTICED = 0, 1
TICK = -1


class Segment(NamedTuple):
    """What a card did: whose shard the piece was of, when it was begun, set up, and ended, in seconds.

    Setting a file up is a segment of its own, with a piece of no tests.
    """

    card: int
    shard: int
    piece: Piece
    starts_at: float
    ready_at: float
    ends_at: float


class _Doing(NamedTuple):
    """What a card will have learnt when it asks again."""

    file: str
    took_s: float
    expected_s: float
    tests_s: float | None


class _Simulation:
    """The truth of the day, and what the cards do about what they see of it."""

    def __init__(
        self,
        pieces: Sequence[Sequence[Piece]],
        truth: Truth,
        *,
        file_s: Mapping[str, float],
        tick_s: float,
    ) -> None:
        self.truth, self.tick_s = truth, tick_s
        self.view = SchedulerView(pieces, file_s=file_s, prior_s=tick_s * PRIOR_SHARE)
        self.policy = StealingPolicy(self.view)
        self.steals = len(pieces) > STATIC
        self.segments: list[Segment] = []
        self.ticking = self.stuck = False
        self.done_at_tick = 0
        self.doing: list[_Doing | None] = [None] * len(pieces)
        self.lost: list[Piece | None] = [None] * len(pieces)
        self.events: list[tuple[float, int, int]] = [
            (start, card, ASKS) for card, start in enumerate(truth.starts_at)
        ]
        heapq.heapify(self.events)

    def run(self) -> None:
        """Until nothing happens any more."""
        if self.steals and self.view.left:
            self.ticking = True
            heapq.heappush(self.events, (self.tick_s, TICK, ASKS))
        while self.events:
            now, card, what = heapq.heappop(self.events)
            if card == TICK:
                self.tick(now)
            elif what == NOTICED:
                self.notice(card, now)
            elif now < self.truth.dies_at[card]:
                self.ask(card, now)
            else:
                heapq.heappush(self.events, (now + NOTICE_S, card, NOTICED))

    def tick(self, now: float) -> None:
        """Look at every shard anew, and let the idle cards ask again."""
        self.policy.tick(now)
        self.stuck = not self.events
        idle, self.view.idle = self.view.idle, []
        for card in idle:
            heapq.heappush(self.events, (now, card, ASKS))
        # Nobody is at work: who waits takes what there is, and if that changes nothing, nothing will.
        over = self.stuck and self.done_at_tick == len(self.segments)
        self.ticking = bool(self.view.left) and not over
        if self.ticking:
            # A day far longer than planned is looked at less often.
            heapq.heappush(self.events, (now + max(self.tick_s, now / TICKS_A_DAY), TICK, ASKS))
        self.done_at_tick = len(self.segments)

    def notice(self, card: int, now: float) -> None:
        """A card is known to be dead: what it had claimed is unclaimed again."""
        self.view.known_dead[card] = True
        piece, self.lost[card] = self.lost[card], None
        if piece is not None:
            self.view.give_back(card, piece)
        if self.steals and not self.ticking:
            self.ticking = True
            heapq.heappush(self.events, (now, TICK, ASKS))

    def ask(self, card: int, now: float) -> None:
        """A card is free: go where it is wanted, go on with its own, or help."""
        view = self.view
        self.tell(card)
        view.started[card] = True
        file = self.file_for(card)
        if file is None:
            if self.steals:
                view.idle.append(card)
            return
        shard = self.policy.shard_for(card, file) if self.steals else card
        begun = now + (CLAIM_S if self.steals else 0.0)
        if view.holds[card] != file:
            self.set_up(card, shard, file, begun)
        else:
            self.claim(card, shard, view.take(shard, file), begun)

    def tell(self, card: int) -> None:
        """What a card did becomes known when it is done, not before."""
        done, self.doing[card] = self.doing[card], None
        if done is None:
            return
        if done.tests_s is not None:
            usual = done.took_s / self.view.pace(card)
            self.view.learn(done.file, usual_s=usual, expected_s=done.tests_s)
        self.view.learn_pace(card, took_s=done.took_s, expected_s=done.expected_s)

    def file_for(self, card: int) -> str | None:
        """What the card does next: the policy of `test_selection.work_stealing`, as this card asks it."""
        view = self.view
        if not self.steals:
            return next(iter(view.queues[card]), None)
        file = self.policy.next_file(card)
        return view.any_file() if file is None and self.stuck else file

    def set_up(self, card: int, shard: int, file: str, begun: float) -> None:
        """Set a file up; its pieces stay unclaimed until then, for those who have it set up already."""
        ready = begun + self.truth.setup_s[file] / self.truth.speeds[card]
        expected = self.view.setup_for(card, file)
        self.view.busy_until[card] = begun + expected * self.view.pace(card)
        self.view.holds[card] = file
        self.view.fresh[card] = True
        dies = self.truth.dies_at[card]
        if begun < dies:
            ends = min(ready, dies)
            self.segments.append(
                Segment(card, shard, Piece(file=file, ids=(), expected_s=0.0), begun, ends, ends)
            )
        self.doing[card] = _Doing(file, ready - begun, expected, None)
        heapq.heappush(self.events, (min(dies, ready), card, ASKS))

    def claim(self, card: int, shard: int, piece: Piece, begun: float) -> None:
        """Run a piece on a card, until its end or the card's."""
        view, file = self.view, piece.file
        seconds = math.fsum([self.truth.test_s[name] for name in piece.ids])
        ends = begun + seconds / self.truth.speeds[card]
        expected = piece.expected_s * view.scale(file)
        view.busy_until[card] = begun + expected * view.pace(card)
        view.fresh[card] = False
        if ends > self.truth.dies_at[card]:
            self.die(card, shard, piece, begun)
            return
        self.segments.append(Segment(card, shard, piece, begun, begun, ends))
        self.doing[card] = _Doing(file, ends - begun, expected, piece.expected_s)
        heapq.heappush(self.events, (ends, card, ASKS))

    def die(self, card: int, shard: int, piece: Piece, begun: float) -> None:
        """The card dies on the way: what ended before counts, the rest is unclaimed once that is noticed."""
        dies, speed = self.truth.dies_at[card], self.truth.speeds[card]
        ends = list(accumulate((self.truth.test_s[name] / speed for name in piece.ids), initial=begun))[1:]
        done = bisect_right(ends, dies)
        share = done / len(piece.ids)
        if begun < dies:
            ended = replace(piece, ids=piece.ids[:done], expected_s=piece.expected_s * share)
            self.segments.append(Segment(card, shard, ended, begun, begun, dies))
        if piece.ids[done:]:
            self.lost[card] = replace(piece, ids=piece.ids[done:], expected_s=piece.expected_s * (1 - share))
        heapq.heappush(self.events, (dies + NOTICE_S, card, NOTICED))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a plan on one day.

    Attributes:
        cards: how many there were.
        makespan_s: when the last card ended.
        bound_s: no split could have ended sooner that day.
        busy: share of the cards' time until then that was spent on tests and set-up.
        not_run: ids no living card was left for.
        stolen: pieces run by a card whose shard they were not of.
        segments: every piece that ran, host by host in the order of beginning.
    """

    cards: int
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


def modes(hosts_of: int) -> dict[str, int | None]:
    """Static, and with work stealing among the cards of a host of so many, and among all (None), by name."""
    return {"static": STATIC, "per host": hosts_of, "global": None}


def simulate(
    plan: Plan,
    truth: Truth,
    *,
    test_s: Mapping[str, float],
    file_s: Mapping[str, float],
    ways: Iterable[int | None],
) -> list[Outcome]:
    """Run a plan on paper on one day, in each of `ways`.

    Args:
        plan: a card a shard.
        truth: of the day.
        test_s: seconds the plan expected of each test.
        file_s: set-up seconds it expected of each file.
        ways: how many cards steal from each other, None for all; each is run on the same day.
    """
    pieces = cut_plan(plan, test_s)
    bound, tick = true_bound(plan, truth), piece_seconds(plan)
    return [run_pieces(pieces, truth, file_s=file_s, host=host, tick_s=tick, bound_s=bound) for host in ways]


def run_pieces(
    pieces: Sequence[Sequence[Piece]],
    truth: Truth,
    *,
    file_s: Mapping[str, float],
    tick_s: float,
    host: int | None = None,
    bound_s: float = 0.0,
) -> Outcome:
    """Run cut shards on one day, hosts of so many cards by themselves; None: all are one. See `simulate`."""
    cards = len(pieces)
    segments: list[Segment] = []
    not_run: list[str] = []
    size = host or cards
    for first in range(0, cards, size):
        day = truth.of_cards(first, size)
        simulation = _Simulation(pieces[first : first + size], day, file_s=file_s, tick_s=tick_s)
        simulation.run()
        segments += [
            one._replace(card=first + one.card, shard=first + one.shard) for one in simulation.segments
        ]
        not_run += simulation.view.left_over()
    # Nobody waits for a set-up that nothing is left to run after.
    ends = max((one.ends_at for one in segments if one.piece.ids), default=0.0)
    done = math.fsum(min(one.ends_at, ends) - min(one.starts_at, ends) for one in segments)
    return Outcome(
        cards=cards,
        makespan_s=ends,
        bound_s=bound_s,
        busy=done / (ends * cards) if ends else 0.0,
        not_run=tuple(not_run),
        stolen=sum(one.card != one.shard and bool(one.piece.ids) for one in segments),
        segments=tuple(segments),
    )
