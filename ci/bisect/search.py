"""The search itself: rounds of commits that are made ready and tried side by side, until it is clear."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Protocol

from ci.bisect.answers import Answer, Said
from ci.bisect.asking import Limits, at_once, ended, next_round
from ci.bisect.belief import Belief
from ci.bisect.record import Record, Tried, tally_of
from ci.core.errors import EXIT_INCOMPLETE, SpyreCiError, UsageError

# Faults of machines in a row after which a commit is passed over, and builds of one that may fail.
FAULTS, BUILDS = 4, 2
# Commits in a row that machines had faults at: it is not the commits.
LOST = 3


class UnbuildableError(SpyreCiError):
    """A commit that cannot be made ready: nothing is known of it, as of one that `git bisect skip` skips."""


class MachineError(SpyreCiError):
    """Machines fail wherever something is tried: nothing is to be blamed on commits."""

    exit_code = EXIT_INCOMPLETE


class Hands(Protocol):
    """Who makes commits ready and tries them; called by several threads at once."""

    def ready(self, position: int) -> Any:
        """Make a commit ready.

        Raises:
            UnbuildableError: it cannot be built.
            SpyreCiError: a fault of the machine.
        """

    def attempt(self, made: Any, position: int, tries: int) -> Sequence[Answer]:
        """Try the test of a commit some times.

        Raises:
            SpyreCiError: a fault of the machine.
        """

    def put_down(self) -> None:
        """A round has ended: what it made ready is not needed any more."""


@dataclass(kw_only=True)
class Search:
    """One search.

    Attributes:
        record: what is known; it grows.
        hands: who tries.
        limits: how far it goes.
        workers: commits side by side.
        save: keeps the record; called after every answer.
        told: takes a line for people.
        drawn: is called when a round has ended.
        clock: seconds since the epoch.
        stop: set by whoever ends the search early.
    """

    record: Record
    hands: Hands
    limits: Limits
    workers: int
    save: Callable[[Record], None]
    told: Callable[[str], None]
    drawn: Callable[[Record], None]
    clock: Callable[[], float]
    stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _believed: tuple[object, Belief] | None = None
    _faults: Counter[int] = field(default_factory=Counter)
    _lost: set[int] = field(default_factory=set)

    def run(self) -> None:
        """Go on until it is clear, nothing is left to ask, or the tries are used up.

        Raises:
            UsageError: the bad end cannot be tried.
            MachineError: machines fail at every commit.
            SpyreCiError: what neither a commit nor a machine can be blamed for, such as a full disk.
            KeyboardInterrupt: it was interrupted; the record is whole.
        """
        while not self.stop.is_set():
            asked = self._opened()
            if not asked:
                return
            self._round(asked)
            with self._lock:
                self.record.open = False
                self.save(self.record)
            self.drawn(self.record)

    def _opened(self) -> list[int]:
        """The positions of the round that goes on, or of the next one."""
        record = self.record
        left = [one for one in record.rounds[-1] if one not in record.barred] if record.open else []
        if left:  # else it was cut off when all was done
            return left
        asked = next_round(
            self._belief(), self.limits, workers=self.workers, barred=record.barred, tried=record.tried
        )
        if asked:
            record.rounds.append(asked)
            record.open = True
            self.save(record)
        return asked

    def _round(self, asked: Sequence[int]) -> None:
        number = len(self.record.rounds)
        names = ", ".join(f"{self.record.commits[one][:12]} ({one})" for one in dict.fromkeys(asked))
        self.told(f"round {number}: {names}")
        first = number == 1
        pool = ThreadPoolExecutor(max_workers=len(asked), thread_name_prefix="bisect")
        try:
            waiting = [pool.submit(self._ask, one, learn=first and one == self.record.last) for one in asked]
            try:
                wait(waiting)
            except BaseException:
                self.stop.set()
                raise
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
            for one in waiting:
                one.result()
        finally:
            self.hands.put_down()

    def _ask(self, position: int, *, learn: bool) -> None:
        try:
            made = self._made(position)
            while made is not None and (tries := self._wanted(position, learn=learn)):
                self._note(position, self._attempt(made, position, tries))
        except BaseException:
            self.stop.set()  # the others end soon, and the error is told
            raise

    def _made(self, position: int) -> Any:
        """A commit, ready; None where it cannot be."""
        failed = 0
        while not self.stop.is_set():
            try:
                return self.hands.ready(position)
            except UnbuildableError as error:
                failed += 1
                if failed >= BUILDS:
                    self._bar(position, f"cannot be built: {error.what}")
                    return None
            except SpyreCiError as error:
                if self._fault(position, f"was not made ready: {error.what}"):
                    return None
        return None

    def _wanted(self, position: int, *, learn: bool) -> int:
        """How many more tries a commit is worth now; 0 for none."""
        with self._lock:
            if self.stop.is_set() or position in self.record.barred:
                return 0
            belief, visit = self._belief(), self.record.visit(position)
            if not learn and ended(belief, self.limits, self.record.barred):
                return 0
            left = self.limits.in_all - sum(one.tries for one in belief.tallies.values())
            return max(min(at_once(belief, self.limits, position, visit=visit, learn=learn), left), 0)

    def _attempt(self, made: Any, position: int, tries: int) -> Sequence[Answer]:
        try:
            return self.hands.attempt(made, position, tries)
        except SpyreCiError as error:
            return [Answer(said=Said.FAULT, message=error.what)]

    def _note(self, position: int, answers: Sequence[Answer]) -> None:
        if not answers:
            answers = [Answer(said=Said.FAULT, message="the try ended without a word")]
        told = [one for one in answers if one.said is not Said.FAULT]
        for one in told:
            with self._lock:
                self._faults.pop(position, None)
                self._lost.clear()
                self.record.tries.append(self._tried(position, one))
                self.save(self.record)
        if told:
            self._say(position, told)
        # What one process met is one fault, as a card that went stays away; whoever ends a search ends its
        # tries, which says nothing.
        faults = [one for one in answers if one.said is Said.FAULT]
        if faults and not self.stop.is_set():
            self._fault(position, faults[-1].message)
        for one in told:
            if tally_of(one.said) is None:
                self._no_answer(position, one)
                return

    def _tried(self, position: int, answer: Answer) -> Tried:
        return Tried(
            round=len(self.record.rounds),
            position=position,
            said=answer.said,
            message=answer.message,
            seconds=answer.seconds,
            card=answer.card,
            at=self.clock(),
        )

    def _no_answer(self, position: int, answer: Answer) -> None:
        """A commit whose test cannot be tried; more tries would say the same."""
        if answer.said is Said.ABSENT and self.record.question.absent == "good":
            with self._lock:
                # Of the bad end it would say that it is none.
                if position < self.record.last:
                    self.record.known_good = max(self.record.known_good, position)
            self._bar(position, "has no such test, which counts as good")
            return
        why = {
            Said.ABSENT: "has no such test",
            Said.SKIPPED: "skips the test",
            Said.UNCOLLECTABLE: "has the test in a file that cannot be collected",
        }[answer.said]
        self._bar(position, f"{why}{f': {answer.message}' if answer.message else ''}")

    def _bar(self, position: int, why: str) -> None:
        if position == self.record.last:
            # Nothing is known to fail, so nothing can be searched for; a name with a slip ends here, too.
            raise UsageError(
                f"the bad end {self.record.commits[position][:12]} {why}",
                where=self.record.question.test,
                remedy="check the test's id and how a commit is built, or name another commit with --bad",
            )
        with self._lock:
            self.record.barred[position] = why
            self.save(self.record)
        self.told(f"  {self.record.commits[position][:12]} {why}; it is passed over")

    def _fault(self, position: int, why: str) -> bool:
        """Note that a machine failed; whether the commit is passed over for it."""
        with self._lock:
            self._faults[position] += 1
            number = self._faults[position]
        if number >= FAULTS:
            self._check_machines(position, why)
            self._bar(position, f"met {number} faults of machines, the last: {why}")
            return True
        self.told(f"  {self.record.commits[position][:12]}: no answer: {why}; once more")
        return False

    def _check_machines(self, position: int, why: str) -> None:
        """Pass over no more commits where machines fail at all of them, and at the bad end at none.

        Raises:
            MachineError: what is passed over for it is asked again when the search goes on.
        """
        with self._lock:
            self._lost.add(position)
            if len(self._lost) < LOST and position != self.record.last:
                return
            for one in self._lost:
                self.record.barred.pop(one, None)
            self.save(self.record)
        raise MachineError(
            f"machines fail wherever a commit is tried, the last time: {why}",
            where=self.record.commits[position][:12],
            remedy="see that the machine works; the same command then goes on",
        )

    def _belief(self) -> Belief:
        """What is believed now, worked out once."""
        with self._lock:
            known = (len(self.record.tries), self.record.known_good)
            if self._believed is None or self._believed[0] != known:
                self._believed = (known, self.record.belief())
            return self._believed[1]

    def _say(self, position: int, answers: Sequence[Answer]) -> None:
        """Tell of tries that ended together, in one line."""
        counts = Counter(one.said.value for one in answers)
        said = ", ".join(what if len(answers) == 1 else f"{number} {what}" for what, number in counts.items())
        cards = ", ".join(sorted({one.card for one in answers if one.card}))
        chance = self._belief().bad(position)
        where = f" on {cards}" if cards else ""
        self.told(f"  {self.record.commits[position][:12]} {said}{where}; bad with {100 * chance:.1f} %")


@contextlib.contextmanager
def timed(record: Record, monotonic: Callable[[], float]) -> Iterator[None]:
    """Within, the seconds of the record grow."""
    began, before = monotonic(), record.seconds
    try:
        yield
    finally:
        record.seconds = before + monotonic() - began
