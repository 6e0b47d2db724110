"""Work stealing: which file a card goes to, and whose piece it claims; for the runner and on paper.

A card claims the pieces of its own shard from the front. When they are gone, and towards the end of the run
before, it claims what is left of the file it has set up, from whatever shard has the longest piece of it.

Changing files costs a set-up, so this is asked of everybody at once. At a tick everybody looks at what is
unclaimed of each file, whosever shard it is in, and at the cards, with estimates scaled by what ended pieces
took, and finds the least end that all can still reach. Cards that have a file set up do as much of it as
they can until then. What they cannot do, and the files nobody has set up, are packed into the time that
cards have over: as much as fits into the roomiest, and what remains of a file where it fits best, each part
with a set-up of its own. That a card leaves early is what keeps set-ups from being paid for seconds.

Everything here is a function of its arguments, so that two cards that see the same claims think the same.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from test_selection.scheduler_view import Card, Need, SchedulerView

# How finely the common end is searched, as a share of the time until then.
PRECISION = 0.004
# As a rule the end is that of the last tick, or little less.
NEAR = 0.95
# By how much farther an end is tried where one is not reached.
FARTHER = 1.5
FAR_S = 1e9
# Less than this is rounding.
SLACK_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """What cards should do.

    Attributes:
        end_s: the common end; infinite where none is reached.
        goes: by card, the files it sets up when it is through with its own, in that order.
        leaves: the cards of these that leave their file now, for others can do what is left of it.
    """

    end_s: float
    goes: Mapping[int, tuple[str, ...]]
    leaves: frozenset[int]


def rebalance(
    cards: Sequence[Card], needs: Mapping[str, Need], now: float, guess_s: float | None = None
) -> Reassignment:
    """The least end that can be reached, and moves that reach it.

    Args:
        cards: those that live.
        needs: by file, those of which something is unclaimed.
        now: the moment, in seconds.
        guess_s: an end near which to look first.
    """
    crew = _Crew(cards, needs)
    low, high = now, now + 1.0
    if guess_s is not None and guess_s > now:
        high = guess_s
    while (best := crew.pack(high)) is None:
        low, high = high, now + (high - now) * FARTHER
        if high - now > FAR_S:
            return Reassignment(end_s=math.inf, goes={}, leaves=frozenset())
    middle = now + (high - now) * NEAR if low == now else (low + high) / 2
    while high - low > max(PRECISION * (high - now), 1e-3):
        found = crew.pack(middle)
        if found is None:
            low = middle
        else:
            best, high = found, middle
        middle = (low + high) / 2
    goes, spared = best
    return Reassignment(
        end_s=high,
        goes={card: tuple(files) for card, files in goes.items()},
        leaves=frozenset(spared).intersection(goes),
    )


# A part of a file for a card that does not have it: seconds with the set-up, the set-up, the file.
_Part = tuple[float, float, str]


class _Crew:
    """The cards by the file they have set up, the first to stay with it first."""

    def __init__(self, cards: Sequence[Card], needs: Mapping[str, Need]) -> None:
        # What takes no time wants a card all the same.
        self.needs = {file: (max(rest, 2 * SLACK_S), setup) for file, (rest, setup) in needs.items()}
        self.held: dict[str, list[Card]] = {}
        self.loose: list[Card] = []
        # Who is free late has the least time for anything else.
        for card in sorted(cards, key=lambda one: (not one.fresh, -one.free_s, one.card)):
            if card.file is not None and card.file in needs:
                self.held.setdefault(card.file, []).append(card)
            else:
                self.loose.append(card)

    def pack(self, end: float) -> tuple[dict[int, list[str]], list[int]] | None:
        """Moves by which all ends by then, and the cards that may leave their file; or None."""
        rooms = [(room, one.card) for one in self.loose if (room := (end - one.free_s) / one.pace) > 0]
        parts: list[_Part] = []
        spared: list[int] = []
        for file, (unclaimed, setup) in self.needs.items():
            holders = self.held.get(file, [])
            rest = _stay(holders, unclaimed, end, rooms, spared)
            if rest > SLACK_S:
                parts.append((rest + setup, setup, file))
        goes = _fill(rooms, parts)
        return None if goes is None else (goes, spared)


def _stay(
    holders: Sequence[Card], rest: float, end: float, rooms: list[tuple[float, int]], spared: list[int]
) -> float:
    """What cards that have a file leave of it; the time they have over is added to `rooms`."""
    for one in holders:
        room = (end - one.free_s) / one.pace
        if room <= 0:
            continue
        if rest <= 0 and one.fresh:
            continue
        if rest <= 0:
            spared.append(one.card)
        if room > rest:
            rooms.append((room - rest, one.card))
        rest -= min(room, rest)
    return rest


def _fill(rooms: list[tuple[float, int]], parts: list[_Part]) -> dict[int, list[str]] | None:
    """Pack parts into the time cards have over, cutting what is larger; None where it does not fit."""
    goes: dict[int, list[str]] = {}
    if math.fsum(part[0] for part in parts) > math.fsum(room for room, _ in rooms):
        return None
    rooms.sort()
    remainders = []
    for size, setup, file in sorted(parts, reverse=True):
        left = _fill_whole(rooms, (size, setup, file), goes)
        if left is None:
            return None
        remainders.append((left, setup, file))
    for part in sorted(remainders, reverse=True):
        if not _fit(rooms, part, goes):
            return None
    return goes


def _fill_whole(rooms: list[tuple[float, int]], part: _Part, goes: dict[int, list[str]]) -> float | None:
    """Fill the roomiest cards, and say what is left, with its set-up; None where it does not fit."""
    size, setup, file = part
    while rooms and size > rooms[-1][0]:
        room, card = rooms.pop()
        if room <= setup:
            return None
        goes.setdefault(card, []).append(file)
        size -= room - setup
    return size


def _fit(rooms: list[tuple[float, int]], part: _Part, goes: dict[int, list[str]]) -> bool:
    """Put a part where it fits best; where it fits nowhere any more, cut it again."""
    size, setup, file = part
    while size > setup:
        at = bisect_left(rooms, (size, -1))
        if at == len(rooms):
            left = _fill_whole(rooms, (size, setup, file), goes)
            if left is None or not rooms:
                return left is not None and left <= setup + SLACK_S
            size = left
            continue
        room, card = rooms.pop(at)
        insort(rooms, (room - size, card))
        goes.setdefault(card, []).append(file)
        break
    return True


# Until so many set-ups before the end a card keeps to its shard: there is time to see what is really late.
HORIZON = 20.0


class StealingPolicy:
    """What the policy said at the last tick.

    Attributes:
        goes: by card, the files it sets up when it is through with its own, in that order.
        leaves: the cards that leave their file now.
        end_s: the common end, in seconds; None until one was found.
        near: whether it is.
    """

    def __init__(self, view: SchedulerView) -> None:
        self.view = view
        self.goes: dict[int, tuple[str, ...]] = {}
        self.leaves: frozenset[int] = frozenset()
        self.end_s: float | None = None
        self.near = False
        self.near_s = HORIZON * max(view.file_s.values(), default=0.0)

    def tick(self, now: float) -> None:
        """Ask the policy anew."""
        self.goes, self.leaves = {}, frozenset()
        if not (needs := self.view.needs()):
            return
        moves = rebalance(self.view.cards(now), needs, now, self.end_s)
        if math.isfinite(moves.end_s):
            self.end_s = moves.end_s
        self.near = self.near or moves.end_s - now <= self.near_s
        self.goes, self.leaves = dict(moves.goes), moves.leaves

    def next_file(self, card: int) -> str | None:
        """The file of which the card claims a piece next, set up or not; None where it can only wait."""
        view = self.view
        held, own = view.holds[card], view.queues[card]
        stays = held if held is not None and view.shard_of(held) is not None else None
        if stays is not None and view.fresh[card]:
            return stays
        if own and not self.near:
            return held if held in own else next(iter(own))
        if stays is not None and card not in self.leaves:
            return stays
        return self.going(card) or stays

    def going(self, card: int) -> str | None:
        """The file the card sets up, if it is wanted at one."""
        return next((one for one in self.goes.pop(card, ()) if self.view.shard_of(one) is not None), None)

    def shard_for(self, card: int, file: str) -> int:
        """Whose piece of the file the card claims: of its own shard, unless another's is longer."""
        view = self.view
        shard = view.shard_of(file)
        if file not in view.queues[card]:
            return card if shard is None else shard
        longer = shard is not None and view.longest(shard, file) > view.longest(card, file)
        return shard if shard is not None and longer else card
