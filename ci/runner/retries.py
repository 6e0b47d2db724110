"""Which tests run again: those that failed, alone, on cards they did not fail on, and not for ever. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A test that is to be run once more, alone.

    Attributes:
        id: its canonical id.
        file: its file.
        of: the shard it is planned for.
        attempt: which try this will be, from 2.
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


@dataclass(slots=True, kw_only=True)
class Retries:
    """The tests that failed, and those of them that wait for another try.

    Attributes:
        most: how often a test is run again.
        budget: how many tests are run again at most; where more fail, it is the build that is broken.
        any_card: whether a test may be tried again on the card it failed on, as where there are no cards.
    """

    most: int
    budget: int
    any_card: bool = False
    _waiting: list[Again] = field(default_factory=list)
    _tried: dict[str, tuple[int, int, frozenset[str]]] = field(default_factory=dict)
    _retried: set[str] = field(default_factory=set)
    _given: dict[str, Again] = field(default_factory=dict)
    _refused: int = 0

    def failed(self, name: str, *, file: str, of: int, card: str, attempt: int = 1) -> None:
        """A try of a test ended badly; of several cards, each is one it failed on.

        Where another host had begun it before, the first try here is not the first `attempt` at it.
        """
        count, last, cards = self._tried.get(name, (0, 0, frozenset()))
        last = max(last + 1, attempt)
        held = frozenset(card.split("+"))
        cards |= held
        self._tried[name] = count + 1, last, cards
        if count >= self.most:
            return
        if name not in self._retried and len(self._retried) >= self.budget:
            self._refused += 1
            return
        self._retried.add(name)
        avoid = frozenset() if self.any_card else cards
        self._waiting.append(Again(id=name, file=file, of=of, attempt=last + 1, avoid=avoid, cards=len(held)))

    def take(self, card: str) -> Again | None:
        """The next test to be run again that did not fail on this card."""
        held = frozenset(card.split("+"))
        for number, one in enumerate(self._waiting):
            if not one.avoid & held and len(held) >= one.cards:
                self._given[one.id] = one
                return self._waiting.pop(number)
        return None

    def give_back(self, name: str) -> None:
        """A test that was to be run again was not, for the worker went before it began."""
        self._waiting.append(self._given.pop(name))

    def waits_for(self, cards: Collection[str]) -> bool:
        """Whether one of these cards could take a test that waits."""
        return any(one.avoid.isdisjoint(card.split("+")) for one in self._waiting for card in cards)

    @property
    def waiting(self) -> tuple[Again, ...]:
        """The tests that wait to be run again."""
        return tuple(self._waiting)

    @property
    def refused(self) -> int:
        """How many tests were not run again because too many failed."""
        return self._refused
