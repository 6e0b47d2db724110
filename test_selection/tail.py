"""Which piece a card claims next: the policy's answers of the last tick, as a card asks for them."""

from __future__ import annotations

import math

from test_selection.moves import rebalance
from test_selection.sight import Sight

# Until so many set-ups before the end a card keeps to its shard: there is time to see what is really late.
HORIZON = 20.0


class Tail:
    """What the policy said at the last tick.

    Attributes:
        goes: by card, the files it sets up when it is through with its own, in that order.
        leaves: the cards that leave their file now.
        ends: by domain, the common end, in seconds.
        near: the domains whose end is near.
    """

    def __init__(self, sight: Sight) -> None:
        self.sight = sight
        self.goes: dict[int, tuple[str, ...]] = {}
        self.leaves: frozenset[int] = frozenset()
        self.ends: dict[int, float] = {}
        self.near: set[int] = set()
        self.near_s = HORIZON * max(sight.file_s.values(), default=0.0)

    def tick(self, now: float) -> None:
        """Ask the policy anew, domain by domain."""
        sight = self.sight
        self.goes.clear()
        leaves: set[int] = set()
        for home in sight.rest:
            needs = sight.needs(home)
            if not needs:
                continue
            moves = rebalance(sight.cards(home, now), needs, now, self.ends.get(home))
            if math.isfinite(moves.end_s):
                self.ends[home] = moves.end_s
            if moves.end_s - now <= self.near_s:
                self.near.add(home)
            self.goes.update(moves.goes)
            leaves |= moves.leaves
        self.leaves = frozenset(leaves)

    def next_file(self, card: int) -> str | None:
        """The file of which the card claims a piece next, set up or not; None where it can only wait."""
        sight = self.sight
        home, held, own = sight.home(card), sight.holds[card], sight.queues[card]
        stays = held if held is not None and sight.shard_of(home, held) is not None else None
        if stays is not None and sight.fresh[card]:
            return stays
        if own and home not in self.near:
            return held if held in own else next(iter(own))
        if stays is not None and card not in self.leaves:
            return stays
        return self.going(card) or stays

    def going(self, card: int) -> str | None:
        """The file the card sets up, if it is wanted at one."""
        home = self.sight.home(card)
        return next(
            (one for one in self.goes.pop(card, ()) if self.sight.shard_of(home, one) is not None), None
        )

    def shard_for(self, card: int, file: str) -> int:
        """Whose piece of the file the card claims: of its own shard, unless another's is longer."""
        sight = self.sight
        shard = sight.shard_of(sight.home(card), file)
        if file not in sight.queues[card]:
            return card if shard is None else shard
        longer = shard is not None and sight.longest(shard, file) > sight.longest(card, file)
        return shard if shard is not None and longer else card
