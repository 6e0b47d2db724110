"""Which tests run again: those that failed, alone, on cards they did not fail on, and not for ever. Pure.

What was lost with its worker runs again as well; of what is not run again it is said why. Where a run ends
after so many failures (`--max-fail`), it is said here too that nothing more is to run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from ci.core.text import counted
from ci.record import events
from ci.record.journal import XPASS_STRICT
from ci.record.result import Try
from ci.record.verdict import FAILING, Verdict

NO_OTHER_CARD = "there is no other card than those it failed on"
TOO_MANY = "as many tests as may be (run.retry_budget) were run again before it"
NO_CARD = "no card was left to run it again"
IN_ORDER = "it runs after other tests of its file (in_order), and not alone"
# How the reason ends why tests were not run after so many failures; `--lf` leaves those out.
STOPPED_BY = "(--max-fail)"
BROKEN = "it ran in a new process, since {} before it had ended theirs, and may have missed what that left"


class Planned(Protocol):
    """What a plan says of a test, by its id."""

    def file_of(self, name: str) -> str:
        """Its file."""
        ...

    def shard_of(self, name: str) -> int:
        """The shard it is planned for."""
        ...

    def cards_of(self, name: str) -> int:
        """How many cards it needs at once."""
        ...

    def before(self, name: str) -> Sequence[str]:
        """The tests it runs after in a given order, so that alone it would be another test."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A test that is to be run once more, alone.

    Attributes:
        id: its test id.
        file: its file.
        of: the shard it is planned for.
        attempt: which try this will be, from 2; or 1 where none came to an end, for its host went with it.
        avoid: the names of the cards it failed on.
        cards: how many cards it runs on at once.
    """

    id: str
    file: str
    of: int
    attempt: int
    avoid: frozenset[str]
    cards: int = 1

    @property
    def last(self) -> bool:
        """Whether it is run behind all others, and while none runs: it may take its host with it."""
        return self.attempt == 1

    def suits(self, cards: Collection[str]) -> bool:
        """Whether it may run on these cards, taken as one."""
        return len(cards) >= self.cards and self.avoid.isdisjoint(cards)


@dataclass(slots=True)
class Pending:
    """What was tried of a test that may be run again.

    Attributes:
        id: of the test.
        cards: the names of those it failed on.
        attempt: which try the next will be; above every one that was begun.
        failed: how often it failed.
        lost: how often it was lost with its worker.
    """

    id: str
    cards: frozenset[str] = frozenset()
    attempt: int = 1
    failed: int = 0
    lost: int = 0


class Outcomes(NamedTuple):
    """What an event of a journal says.

    Attributes:
        ended: by id, the tries that came to an end, or were given up.
        in_vain: by id, why a retry was not run: its file cannot be had, say, or lacks it.
    """

    ended: dict[str, Try]
    in_vain: dict[str, str]


class Retries:
    """The tests that failed, and those of them that wait for another try.

    Attributes:
        waiting: the tests that wait to be run again.
        refused: those that are not run again because too many failed.
        enough: why nothing more is to be run; empty while the run goes on.
    """

    def __init__(
        self,
        planned: Planned,
        *,
        most: int,
        budget: int,
        any_card: bool = False,
        max_fail: int = 0,
        spared: Collection[str] = (),
    ) -> None:
        """Begin with none.

        Args:
            planned: the plan.
            most: how often a test is run again because it failed, and how often because its worker was lost.
            budget: how many tests are run again at most; where more fail, it is the build that is broken.
            any_card: whether a test may be tried again on the card it failed on, as where there are no cards.
            max_fail: failed tests after which nothing more is to be run; 0: there is no such number.
            spared: ids of quarantined tests, whose failures do not count for that.
        """
        self.enough = ""
        self._max_fail, self._spared, self._failures = max_fail, frozenset(spared), set[str]()
        self.waiting: list[Retry] = []
        self.refused: list[Retry] = []
        self._planned, self._most, self._budget, self._any_card = planned, most, budget, any_card
        self._past: dict[str, Pending] = {}
        self._retried: set[str] = set()
        self._given: dict[str, Retry] = {}
        # Tests that ended their process: what runs after them in a given order misses what they left.
        self._broke: set[str] = set()

    def learn(self, outcomes: Outcomes, *, card: str, attempt: int) -> Iterator[events.NoRetry]:
        """Have tests run again that a journal says failed, and say why of those that are not.

        Args:
            outcomes: what it says.
            card: the name of the card they ran on, or those of several joined by `+`.
            attempt: which try of them it was.
        """
        for (
            name,
            why,
        ) in outcomes.in_vain.items():  # else its failure would stand as if nobody had tried
            yield events.NoRetry(ids=[name], message=why)
        self._count(name for name, one in outcomes.ended.items() if one.outcome is Verdict.FAILED)
        for name, one in outcomes.ended.items():
            if one.cause is not None:
                self._broke.add(name)
            # One that was to fail and passed has been told apart already: another card says no more of it.
            if one.outcome not in FAILING or one.message.startswith(XPASS_STRICT):
                continue
            if self._most and (before := self._planned.before(name)):
                broke = next((one for one in reversed(before) if one in self._broke), None)
                reason = IN_ORDER if broke is None else f"{IN_ORDER}; {BROKEN.format(broke)}"
                yield events.NoRetry(ids=[name], message=reason)
            else:
                self.failed(name, card=card, attempt=attempt)

    def _count(self, failed: Iterable[str]) -> None:
        self._failures.update(name for name in failed if name not in self._spared)
        if 0 < self._max_fail <= len(self._failures) and not self.enough:
            self.enough = f"stopped after {counted(len(self._failures), 'failure')} {STOPPED_BY}"

    def failed(self, name: str, *, card: str, attempt: int = 1) -> None:
        """A try of a test ended badly; where that was on several cards, each is one it failed on.

        Where another host had begun it before, the first try here is not the first `attempt` at it.
        """
        past = self._tried(name, attempt)
        past.cards |= frozenset(card.split("+"))
        past.failed += 1
        if past.failed <= self._most:
            self._put(past)

    def lost(self, name: str, *, attempt: int = 1) -> None:
        """A try of a test came to nothing, and not by its own or its card's doing.

        It costs the test none of the tries it has where it fails, and no card.
        """
        self._broke.add(name)
        past = self._tried(name, attempt)
        past.lost += 1
        if past.lost <= self._most:
            self._put(past)

    def hung(self, name: str, *, card: str, attempt: int) -> None:
        """A test ran when its worker was ended for its silence, which may have been the card's doing."""
        self._broke.add(name)
        self.failed(name, card=card, attempt=attempt)

    def resume(self, pending: Iterable[Pending]) -> None:
        """Tests that an earlier part of the run did not come to run, or to run again."""
        for one in pending:
            self._past[one.id] = one
            if one.attempt == 1:  # that is no retry, and costs none
                self.waiting.append(self._retry(one))
            else:
                self._put(one)

    def bar(self, cards: Collection[str]) -> None:
        """Nothing that waits is to be tried on these cards: whatever they are, no worker lives with them."""
        self.waiting = [replace(one, avoid=one.avoid.union(cards)) for one in self.waiting]

    def take(self, card: str, *, last: bool = False) -> Retry | None:
        """The next test to be run again that did not fail on this card.

        Args:
            card: its name, or those of several joined by `+`.
            last: whether those are meant that run behind all others, or those that do not.
        """
        held = card.split("+")
        for number, one in enumerate(self.waiting):
            if one.last == last and one.suits(held):
                self._given[one.id] = one
                return self.waiting.pop(number)
        return None

    def give_back(self, name: str) -> None:
        """A test that was to be run again was not, for the worker went before it began."""
        self.waiting.append(self._given.pop(name))

    def give_up(self, blockers: str) -> Iterator[tuple[int, events.NoRetry]]:
        """Why what waits, or was refused, is not run again, with the shard it is planned for.

        Args:
            blockers: who holds the other cards; empty where nobody does.
        """
        for one in self.waiting:
            reason = NO_CARD if one.last else NO_OTHER_CARD
            yield one.of, events.NoRetry(ids=[one.id], message="; ".join(filter(None, [reason, blockers])))
        for one in self.refused:
            yield one.of, events.NoRetry(ids=[one.id], message=TOO_MANY)

    def _tried(self, name: str, attempt: int) -> Pending:
        past = self._past.setdefault(name, Pending(name))
        past.attempt = max(past.attempt, attempt) + 1
        return past

    def _retry(self, past: Pending) -> Retry:
        return Retry(
            id=past.id,
            file=self._planned.file_of(past.id),
            of=self._planned.shard_of(past.id),
            attempt=past.attempt,
            avoid=frozenset() if self._any_card else past.cards,
            cards=self._planned.cards_of(past.id),
        )

    def _put(self, past: Pending) -> None:
        if past.id not in self._retried and len(self._retried) >= self._budget:
            self.refused.append(self._retry(past))
            return
        self._retried.add(past.id)
        self.waiting.append(self._retry(past))
