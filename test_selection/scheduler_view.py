"""What cards can see of a run: what is unclaimed, who is at what, what ended pieces took.

Estimates are what was expected, scaled by what a file's pieces and a card's pieces took so far. A file of
which nothing has ended yet may turn out long when there is no time left to help: until its pieces say more,
time is kept free for what all but one in a hundred would take, as wrong as estimates proved on this day.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from test_selection.pieces import Piece

# The unclaimed pieces of a shard, by file in the order of running; no group is empty.
_Queue = dict[str, deque[Piece]]
# What estimates of a file are taken to be off by before anything is known, as the standard deviation of a
# logarithm: as much as this many files would have shown.
USUAL_SPREAD = 0.3
USUAL_FILES = 10
# Ninety-nine of a hundred normal draws lie below so many standard deviations.
QUANTILE = 2.33


class Card(NamedTuple):
    """A card as everybody sees it.

    Attributes:
        card: its index.
        file: what it has set up, or is setting up.
        free_s: the moment at which it is expected to be through with what it does, in seconds.
        pace: seconds it takes for a second of work.
        fresh: it has run nothing of its file yet; it may not leave before it has.
    """

    card: int
    file: str | None
    free_s: float
    pace: float
    fresh: bool


class Need(NamedTuple):
    """Seconds expected of what is unclaimed of a file, and of its set-up, on a card of pace 1."""

    rest_s: float
    setup_s: float


class SchedulerView:
    """The unclaimed pieces of every shard, the cards, and what everybody has learnt so far.

    Attributes:
        queues: what is unclaimed of each shard.
        rest: seconds expected of it, by file.
        parts: by file, the shards that have some of it, the one with the longest piece first.
        left: unclaimed pieces of all shards.
        holds: the file each card has set up.
        fresh: the cards that have set up their file, or do so, and run nothing of it yet.
        busy_until: when each card is expected to be through with what it does, in seconds.
        started: the cards that have asked for work.
        known_dead: the cards everybody knows to be dead.
        idle: the cards that wait.
        paces: of cards that somebody else looks after, by how much each is slower than expected.
    """

    def __init__(
        self, pieces: Sequence[Sequence[Piece]], *, file_s: Mapping[str, float], prior_s: float
    ) -> None:
        self.file_s, self.prior_s = file_s, prior_s
        cards = len(pieces)
        self.queues: list[_Queue] = [{} for _ in pieces]
        self.rest: dict[str, float] = {}
        self.parts: dict[str, list[tuple[float, int]]] = {}
        for shard, row in enumerate(pieces):
            for piece in row:
                self.queues[shard].setdefault(piece.file, deque()).append(piece)
                self.owe(piece)
            for file in self.queues[shard]:
                self.offer(shard, file)
        self.left = sum(len(one) for one in pieces)
        self.holds: list[str | None] = [None] * cards
        self.busy_until = [0.0] * cards
        self.fresh = [False] * cards
        self.started = [False] * cards
        self.known_dead = [False] * cards
        self.idle: list[int] = []
        self.paces: dict[int, float] = {}
        self._took: dict[str, float] = {}
        self._expected: dict[str, float] = {}
        self._card_took = [0.0] * cards
        self._card_expected = [0.0] * cards

    def left_over(self) -> Iterator[str]:
        """The ids nobody has claimed."""
        for queue in self.queues:
            for group in queue.values():
                for piece in group:
                    yield from piece.ids

    def owe(self, piece: Piece) -> None:
        """Count a piece among the rest of its file."""
        self.rest[piece.file] = self.rest.get(piece.file, 0.0) + piece.expected_s

    def offer(self, shard: int, file: str) -> None:
        """A shard has pieces of a file that may be the longest there are."""
        heapq.heappush(self.parts.setdefault(file, []), (-self.longest(shard, file), shard))

    def longest(self, shard: int, file: str) -> float:
        """Seconds of the longest piece of a group: the first may be there to be learnt from."""
        return max(piece.expected_s for piece in islice(self.queues[shard][file], 2))

    def shard_of(self, file: str) -> int | None:
        """The shard with the longest unclaimed piece of a file, if there is any."""
        heap = self.parts.get(file, [])
        while heap:
            negated, shard = heap[0]
            if file not in self.queues[shard]:
                heapq.heappop(heap)
            elif (longest := self.longest(shard, file)) < -negated:
                heapq.heapreplace(heap, (-longest, shard))
            else:
                return shard
        return None

    def any_file(self, *, without: Collection[str] = ()) -> str | None:
        """A file of which something is unclaimed, if there is any but `without`."""
        files = (file for file in self.rest if file not in without)
        return next((file for file in files if self.shard_of(file) is not None), None)

    def give_back(self, shard: int, piece: Piece) -> None:
        """A piece is unclaimed again."""
        self.queues[shard].setdefault(piece.file, deque()).append(piece)
        self.owe(piece)
        self.offer(shard, piece.file)
        self.left += 1

    def take(self, shard: int, file: str) -> Piece:
        """Claim the next piece of a shard's group."""
        piece = self.queues[shard][file][0]
        self.withdraw(shard, piece)
        return piece

    def withdraw(self, shard: int, piece: Piece) -> bool:
        """Take a piece out, because somebody else has it; false where it is not unclaimed."""
        queue = self.queues[shard]
        if piece not in queue.get(piece.file, ()):
            return False
        queue[piece.file].remove(piece)
        self.rest[piece.file] -= piece.expected_s
        if not queue[piece.file]:
            del queue[piece.file]
        self.left -= 1
        return True

    def learn(self, file: str, *, usual_s: float, expected_s: float) -> None:
        """What a piece takes on a card of the usual speed, and what was expected of it at first."""
        self._took[file] = self._took.get(file, 0.0) + usual_s
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
        if (pace := self.paces.get(card)) is not None:
            return pace
        return scale(self._card_took[card], self._card_expected[card], self.prior_s)

    def setup_for(self, card: int, file: str) -> float:
        """Seconds expected until a card has a file set up."""
        return 0.0 if self.holds[card] == file else self.file_s.get(file, 0.0)

    def free_at(self, card: int, now: float) -> float:
        """When a card is through with its piece; one that has not started is given as long again."""
        return max(self.busy_until[card], now) if self.started[card] else 2 * now

    def cards(self, now: float) -> list[Card]:
        """The cards that live, for all everybody knows."""
        return [
            Card(card, self.holds[card], self.free_at(card, now), self.pace(card), self.fresh[card])
            for card in range(len(self.queues))
            if not self.known_dead[card]
        ]

    def needs(self) -> dict[str, Need]:
        """What is unclaimed, by file, with caution where a file has shown little."""
        spread_of_day = spread(self.scale(file) for file in self._took)
        return {
            file: Need(
                rest * self.scale(file) * caution(self._expected.get(file, 0.0), self.prior_s, spread_of_day),
                self.file_s.get(file, 0.0),
            )
            for file, rest in self.rest.items()
            if self.shard_of(file) is not None
        }


def scale(took_s: float, expected_s: float, prior_s: float) -> float:
    """By how much a file's estimates are off, from its pieces so far; 1 until `prior_s` seconds say more."""
    return (took_s + prior_s) / (expected_s + prior_s) if expected_s + prior_s > 0 else 1.0


def spread(scales: Iterable[float]) -> float:
    """By how much estimates are off on this day, as the standard deviation of the scales' logarithms."""
    squares = [math.log(one) ** 2 for one in scales]
    return math.sqrt((math.fsum(squares) + USUAL_FILES * USUAL_SPREAD**2) / (len(squares) + USUAL_FILES))


def caution(expected_s: float, prior_s: float, spread_of_day: float) -> float:
    """By how much longer than estimated a file may take, of which pieces of `expected_s` have ended.

    What remains of the variance is the share that `scale` still gives to the estimate.
    """
    unknown = prior_s / (expected_s + prior_s) if expected_s + prior_s > 0 else 0.0
    return math.exp(QUANTILE * spread_of_day * math.sqrt(unknown))
