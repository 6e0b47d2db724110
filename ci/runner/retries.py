"""Which tests run again: those that failed, alone, on cards they did not fail on, and not for ever. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

NO_OTHER_CARD = "there is no other card than those it failed on"
TOO_MANY = "as many tests as may be (run.retry_budget) were run again before it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A test that is to be run once more, alone.

    Attributes:
        id: its canonical id.
        file: its file.
        of: the shard it is planned for.
        attempt: which try this will be, from 2; or 1 where none came to an end, for its host went with it.
        avoid: the names of the cards it failed on.
        cards: how many cards it runs on at once.
        expected_s: seconds it is expected to take.
    """

    id: str
    file: str
    of: int
    attempt: int
    avoid: frozenset[str]
    cards: int = 1
    expected_s: float = 0.0

    @property
    def last(self) -> bool:
        """Whether it is run behind all others, and while none runs: it may take its host with it."""
        return self.attempt == 1

    def suits(self, cards: Collection[str]) -> bool:
        """Whether it may run on these cards, taken as one."""
        return len(cards) >= self.cards and self.avoid.isdisjoint(cards)


class Owed(NamedTuple):
    """A test whose next try an earlier part of the run did not come to.

    Attributes:
        test: what is to be run.
        failed: how often it failed so far.
        lost: how often it was lost with its worker.
    """

    test: Again
    failed: int
    lost: int


@dataclass(slots=True)
class _Past:
    """What was tried of a test: how often it failed, how often it was lost, the last try, the cards."""

    failed: int = 0
    lost: int = 0
    last: int = 0
    cards: frozenset[str] = frozenset()


@dataclass(slots=True, kw_only=True)
class Retries:
    """The tests that failed, and those of them that wait for another try.

    Attributes:
        most: how often a test is run again because it failed, and how often because its worker was lost.
        budget: how many tests are run again at most; where more fail, it is the build that is broken.
        any_card: whether a test may be tried again on the card it failed on, as where there are no cards.
    """

    most: int
    budget: int
    any_card: bool = False
    _waiting: list[Again] = field(default_factory=list)
    _past: dict[str, _Past] = field(default_factory=dict)
    _retried: set[str] = field(default_factory=set)
    _given: dict[str, Again] = field(default_factory=dict)
    _refused: list[Again] = field(default_factory=list)

    def failed(self, name: str, *, file: str, of: int, card: str, attempt: int = 1, cards: int = 1) -> None:
        """A try of a test that needs `cards` cards ended badly; of several, each is one it failed on.

        Where another host had begun it before, the first try here is not the first `attempt` at it.
        """
        past = self._tried(name, attempt)
        past.cards |= frozenset(card.split("+"))
        past.failed += 1
        if past.failed <= self.most:
            self._put(name, past, file=file, of=of, cards=cards)

    def lost(self, name: str, *, file: str, of: int, attempt: int = 1, cards: int = 1) -> None:
        """A try of a test came to nothing, and not by its own or its card's doing.

        It costs the test none of the tries it has where it fails, and no card.
        """
        past = self._tried(name, attempt)
        past.lost += 1
        if past.lost <= self.most:
            self._put(name, past, file=file, of=of, cards=cards)

    def owed(self, ones: Iterable[Owed]) -> None:
        """Tests that an earlier part of the run did not come to run again."""
        for one in ones:
            test = one.test
            past = self._tried(test.id, test.attempt - 1)
            if test.last:  # that is no retry, and costs none
                past.last = 0
                self._waiting.append(test)
                continue
            past.cards |= test.avoid
            past.failed, past.lost = one.failed, one.lost
            self._put(test.id, past, file=test.file, of=test.of, cards=test.cards)

    def bar(self, cards: Collection[str]) -> None:
        """Nothing that waits is to be tried on these cards: whatever they are, no worker lives with them."""
        self._waiting = [replace(one, avoid=one.avoid.union(cards)) for one in self._waiting]

    def take(self, card: str, *, last: bool = False) -> Again | None:
        """The next test to be run again that did not fail on this card.

        Args:
            card: its name, or those of several joined by `+`.
            last: whether those are meant that run behind all others, or those that do not.
        """
        held = card.split("+")
        for number, one in enumerate(self._waiting):
            if one.last == last and one.suits(held):
                self._given[one.id] = one
                return self._waiting.pop(number)
        return None

    def give_back(self, name: str) -> None:
        """A test that was to be run again was not, for the worker went before it began."""
        self._waiting.append(self._given.pop(name))

    @property
    def waiting(self) -> tuple[Again, ...]:
        """The tests that wait to be run again."""
        return tuple(self._waiting)

    @property
    def refused(self) -> tuple[Again, ...]:
        """The tests that were not run again because too many failed."""
        return tuple(self._refused)

    def _tried(self, name: str, attempt: int) -> _Past:
        past = self._past.setdefault(name, _Past())
        past.last = max(past.last + 1, attempt)
        return past

    def _put(self, name: str, past: _Past, *, file: str, of: int, cards: int) -> None:
        avoid = frozenset() if self.any_card else past.cards
        one = Again(id=name, file=file, of=of, attempt=past.last + 1, avoid=avoid, cards=cards)
        if name not in self._retried and len(self._retried) >= self.budget:
            self._refused.append(one)
            return
        self._retried.add(name)
        self._waiting.append(one)
