"""Where shards wait for cards and cards for shards, on one host: who gets which, and when to wait."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence

from ci.runner.inventory import Card
from ci.runner.pool import CardPool
from ci.runner.retries import Retry
from test_selection.plan import Shard

# How often cards are asked for that other runs hold.
CARDS_POLL_S = 1.0
# A whole run is worth a longer wait than a second try of a test.
RETRY_WAIT_S = 120.0
# So many cards are lost to the workers of one shard before it is the shard that is given up.
CARDS_A_SHARD = 2


class CardAllocator:
    """The shards that no slot works for yet, and the cards that are held and used by none.

    Attributes:
        waiting: the shards, in the order of their turn.
        reasons: why workers of a shard were lost.
    """

    def __init__(
        self,
        pool: CardPool,
        shards: Sequence[Shard],
        *,
        lease_timeout_s: float,
        clock: Callable[[], float],
    ) -> None:
        """All shards wait.

        Args:
            pool: the cards.
            shards: in the order of their turn.
            lease_timeout_s: how long a run waits while it has no card at all.
            clock: monotonic seconds.
        """
        self.waiting = deque(shards)
        self.reasons: dict[int, str] = {}
        self._shards = {shard.index: shard for shard in shards}
        self._losses: Counter[int] = Counter()
        self._pool, self._clock, self._lease_timeout_s = pool, clock, lease_timeout_s
        self._free: list[Card] = []
        self._asked: float | None = None
        self._busy_at = clock()

    def give_out(self) -> Iterator[tuple[Shard, list[Card]]]:
        """Each shard whose turn it is and that finds its cards free, with them.

        One that must wait for cards lets nobody pass, or narrow ones would keep it waiting to the end.
        """
        while self.waiting and self.waiting[0].cards > self._pool.left:
            self.waiting.popleft()  # there will never be so many; what of it nobody claims is told of
        self._ask()
        while self.waiting and self.waiting[0].cards <= len(self._free):
            shard = self.waiting.popleft()
            yield shard, [self._free.pop() for _ in range(shard.cards)]

    def next_shard(self, cards: int) -> Shard | None:
        """The shard whose turn it is, if it needs just so many cards."""
        if self.waiting and self.waiting[0].cards == cards:
            return self.waiting.popleft()
        return None

    def wait_again(self, left: Collection[int]) -> None:
        """What is left of shards, which nobody works for, waits; but for those that cost too many cards."""
        found = set(left) - {shard.index for shard in self.waiting}
        self.waiting += [
            self._shards[index]
            for index in sorted(found)
            if index in self._shards and self._losses[index] < CARDS_A_SHARD
        ]
        self._asked = None

    def lost(self, shard: int, reason: str, *, wide: bool) -> None:
        """Workers of a shard were lost with a card; of a wide one nobody knows which it was."""
        self.reasons[shard] = reason
        self._losses[shard] += CARDS_A_SHARD if wide else 1

    def take_back(self, cards: Sequence[Card]) -> None:
        """A slot is through with its cards: they are for others, but for those that are out."""
        self.release([card for card in cards if self._pool.is_out(card)])
        self._free += [card for card in cards[::-1] if not self._pool.is_out(card)]

    def release(self, cards: Sequence[Card]) -> None:
        """Let go of cards."""
        for card in cards:
            self._pool.release(card)
            self._asked = None  # with one card fewer, the run may have another

    def abandon(self, cards: Sequence[Card], why: str) -> None:
        """Do without cards that something holds which nobody can end: no other run is to have them either."""
        for card in cards:
            self._pool.abandon(card, why)
        self._asked = None

    def release_free(self) -> None:
        """Let go of what nobody here needs: another run may be waiting for it."""
        self.release(self._free)
        self._free = []

    def busy(self) -> None:
        """Somebody is at work: who waits for a card does not do so in vain."""
        self._busy_at = self._clock()

    def waits(self) -> bool:
        """Whether a run that has no card at all is to wait for one."""
        return bool(self.waiting) and self._wait(
            self._lease_timeout_s, may=self._pool.may_have(1, leasable=True)
        )

    def for_retry(self, tests: Sequence[Retry]) -> tuple[Retry, list[Card]] | None:
        """A test to be run again, with cards for it that nobody holds; asked when all slots are gone."""
        if not self._may_ask():
            return None
        # Not of those that no card is left for: in vain it would give up the run's turn.
        possible = (one for one in tests if self._pool.may_have(one.cards, avoid=one.avoid))
        for one in possible:
            if cards := self._pool.take(one.cards, least=one.cards, avoid=one.avoid):
                self._asked = None
                return one, cards
        self._asked = self._clock()
        return None

    def _may_ask(self) -> bool:
        return self._asked is None or self._clock() - self._asked >= CARDS_POLL_S

    def waits_to_retry(self, tests: Sequence[Retry]) -> bool:
        """Whether a card that another run holds is worth waiting for, to run one of these tests again."""
        may = any(self._pool.may_have(one.cards, avoid=one.avoid, leasable=True) for one in tests)
        return bool(tests) and self._wait(min(RETRY_WAIT_S, self._lease_timeout_s), may=may)

    def _wait(self, limit_s: float, *, may: bool) -> bool:
        now = self._clock()
        if not may or now - self._busy_at > limit_s:
            return False
        self._pool.tell_waiting(now)
        return True

    def _ask(self) -> None:
        """Take what is free of the cards that shards wait for."""
        missing = sum(shard.cards for shard in self.waiting) - len(self._free)
        if missing <= 0 or not self._may_ask():
            return
        least = max(1, self.waiting[0].cards - len(self._free))
        taken = self._pool.take(missing, least=least)
        self._asked = None if taken else self._clock()
        self._free = [*taken[::-1], *self._free]
