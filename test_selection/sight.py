"""What cards can see of a day on paper: what is unclaimed, who is at what, what ended pieces took.

Estimates are what was expected, scaled by what a file's pieces and a card's pieces took so far.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from test_selection.steal import SLACK_S, Piece, Pool, Rest, scale

# The unclaimed pieces of a shard, by group in the order of running; no group is empty.
_Queue = deque[deque[Piece]]


class Sight:
    """The unclaimed pieces of every shard, the cards, and what everybody has learnt so far.

    Attributes:
        domain: so many cards steal from each other.
        queues: what is unclaimed of each shard.
        rest: seconds expected of it, by file.
        left: unclaimed pieces of all shards.
        holds: the file each card has set up.
        fresh: the cards that have set up their file, or do so, and run nothing of it yet.
        busy_until: when each card is expected to be through with what it does, in seconds.
        started: the cards that have asked for work.
        known_dead: the cards everybody knows to be dead.
        left_own: the cards that have left their shard to others.
        idle: the cards that wait.
    """

    def __init__(
        self,
        pieces: Sequence[Sequence[Piece]],
        *,
        file_s: Mapping[str, float],
        domain: int,
        prior_s: float,
    ) -> None:
        self.file_s, self.domain, self.prior_s = file_s, domain, prior_s
        cards = len(pieces)
        self.queues: list[_Queue] = [
            deque(deque(group) for _, group in groupby(one, key=lambda piece: piece.file)) for one in pieces
        ]
        self.rest: list[dict[str, float]] = [{} for _ in pieces]
        for shard, row in enumerate(pieces):
            for piece in row:
                self.owe(shard, piece)
        self.left = sum(len(one) for one in pieces)
        self.holds: list[str | None] = [None] * cards
        self.busy_until = [0.0] * cards
        self.fresh = [False] * cards
        self.started = [False] * cards
        self.known_dead = [False] * cards
        self.left_own = [False] * cards
        self.idle: list[int] = []
        self._took: dict[str, float] = {}
        self._expected: dict[str, float] = {}
        self._card_took = [0.0] * cards
        self._card_expected = [0.0] * cards

    def home(self, card: int) -> int:
        """The domain of a card."""
        return card // self.domain

    def neighbours(self, card: int) -> range:
        """The cards of the same domain, itself among them."""
        first = self.home(card) * self.domain
        return range(first, min(first + self.domain, len(self.queues)))

    def left_over(self) -> Iterator[str]:
        """The ids nobody has claimed."""
        for queue in self.queues:
            for group in queue:
                for piece in group:
                    yield from piece.ids

    def owe(self, shard: int, piece: Piece) -> None:
        """Count a piece among the rest of a shard."""
        rest = self.rest[shard]
        rest[piece.file] = rest.get(piece.file, 0.0) + piece.expected_s

    def give_back(self, shard: int, piece: Piece) -> None:
        """A piece is unclaimed again."""
        self.queues[shard].append(deque([piece]))
        self.owe(shard, piece)
        self.left += 1

    def take(self, shard: int, end: int) -> Piece:
        """Claim the next piece of the first group (0) or of the last (-1) of a shard."""
        queue = self.queues[shard]
        piece = queue[end].popleft()
        if not queue[end]:
            del queue[end]
        self.rest[shard][piece.file] -= piece.expected_s
        self.left -= 1
        return piece

    def learn(self, card: int, file: str, *, took_s: float, expected_s: float) -> None:
        """What a piece took, and what was expected before anything was known."""
        self._took[file] = self._took.get(file, 0.0) + took_s / self.pace(card)
        self._expected[file] = self._expected.get(file, 0.0) + expected_s

    def learn_pace(self, card: int, *, took_s: float, expected_s: float) -> None:
        """What a card took, and what was expected of a card of the usual speed."""
        self._card_took[card] += took_s
        self._card_expected[card] += expected_s

    def scale(self, file: str) -> float:
        """By how much a file's estimates are off, so far."""
        return scale(self._took.get(file, 0.0), self._expected.get(file, 0.0), self.prior_s)

    def pace(self, card: int) -> float:
        """By how much a card is slower than expected, so far."""
        return scale(self._card_took[card], self._card_expected[card], self.prior_s)

    def setup_for(self, card: int, file: str) -> float:
        """Seconds expected until a card has a file set up."""
        return 0.0 if self.holds[card] == file else self.file_s.get(file, 0.0)

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

    def ends_at(self, shard: int, now: float) -> float:
        """When a shard is expected to end if nobody helps; never, where its card is known to be dead."""
        if self.known_dead[shard] or self.left_own[shard]:
            return math.inf
        seconds = 0.0
        for file, rest in self.rest[shard].items():
            if rest > SLACK_S:
                seconds += rest * self.scale(file) + self.setup_for(shard, file)
        return self.free_at(shard, now) + seconds * self.pace(shard)

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

    def pools(self, now: float) -> dict[int, list[Pool]]:
        """The files at the backs of shards, by domain."""
        rest: dict[tuple[int, str], float] = {}
        free: dict[tuple[int, str], list[float]] = {}
        leavers: dict[tuple[int, str], int] = {}
        idle = set(self.idle)
        for shard, queue in enumerate(self.queues):
            home = self.home(shard)
            if queue:
                last = queue[-1][0].file
                key = (home, last)
                rest[key] = rest.get(key, 0.0) + self.rest[shard][last] * self.scale(last)
                if not self.left_own[shard] and not self.known_dead[shard]:
                    free.setdefault(key, []).append(self.free_for(shard, last, now))
                    if self.holds[shard] == last and len(queue) == 1 and not self.fresh[shard]:
                        leavers[key] = leavers.get(key, 0) + 1
                    continue
            held = self.holds[shard]
            if held is not None and shard not in idle and not self.known_dead[shard]:
                key = (home, held)
                free.setdefault(key, []).append(max(self.busy_until[shard], now))
                leavers[key] = leavers.get(key, 0) + (not self.fresh[shard])
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
