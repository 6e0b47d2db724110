"""Other hosts in this host's sight, and this host's posts as the others see them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ci.runner.claims.book import Look
from ci.runner.claims.news import Posted
from ci.runner.scheduler import Scheduler
from test_selection.sight import Sight
from test_selection.steal import Piece


class View:
    """Keeps a dispatcher's sight current with what other hosts do."""

    def __init__(self, dispatcher: Scheduler, pieces: Sequence[Sequence[Piece]]) -> None:
        """Look after a dispatcher; `pieces` are those of each shard, by number."""
        self._scheduler, self._pieces = dispatcher, pieces
        self._theirs: set[int] = set()

    def apply(self, look: Look, mine: Collection[int], now: float) -> None:
        """Take in what has changed.

        Args:
            look: what the others did.
            mine: the shards that posts of this host work for; what others say of their numbers is not heeded.
            now: the moment, in seconds since the run began.
        """
        for shard, number in look.taken:
            if (piece := self._piece(shard, number)) is not None:
                self._scheduler.withdraw(shard, piece)
        for shard, number in look.freed:
            if (piece := self._piece(shard, number)) is not None:
                self._scheduler.give_back(shard, piece)
        self._see(look.posts, mine, now)
        for one in look.learnt:
            if self._known(one.shard) and one.shard not in mine:
                self._scheduler.learn(
                    one.shard, one.file, took_s=one.took_s, expected_s=one.expected_s, setup=one.setup
                )

    def _see(self, posts: Sequence[Posted], mine: Collection[int], now: float) -> None:
        sight = self._scheduler.sight
        seen = {one.shard: one for one in posts if self._known(one.shard) and one.shard not in mine}
        for shard in self._theirs - seen.keys() - set(mine):
            self._scheduler.end(shard)
        self._theirs = set(seen)
        for shard, one in seen.items():
            self._scheduler.begin(shard)
            sight.holds[shard], sight.fresh[shard] = one.file, one.fresh
            sight.busy_until[shard] = now + one.left_s

    def _known(self, shard: int) -> bool:
        return shard < len(self._pieces)

    def _piece(self, shard: int, number: int) -> Piece | None:
        row = self._pieces[shard] if self._known(shard) else ()
        # Of a piece without ids nothing is left to run here.
        return row[number] if number < len(row) and row[number].ids else None


def posted(sight: Sight, posts: Collection[int], now: float) -> tuple[Posted, ...]:
    """What this host's posts are at, for others to know."""
    return tuple(
        Posted(
            shard=one,
            file=sight.holds[one],
            fresh=sight.fresh[one],
            left_s=round(max(0.0, sight.busy_until[one] - now), 3),
        )
        for one in posts
    )
