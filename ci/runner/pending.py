"""The retries that a run still had to make when it was cut off, by what its journals tell. Pure.

A test that failed has an outcome, so it is not among what is left of the plan; that it was to be tried once
more is nowhere but in the journals, where that try is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ci.record.journal import XPASS_STRICT, Journal
from ci.record.result import SILENT, Try
from ci.record.run_state import RunState, state_of
from ci.record.verdict import FAILING, Verdict
from ci.runner.retries import NO_OTHER_CARD


class Pending(NamedTuple):
    """A retry that was not made.

    Attributes:
        id: of the test.
        cards: the names of those it failed on.
        attempt: which try it will be; above every one that was begun.
        failed: how often it failed.
        lost: how often it was lost with its worker.
    """

    id: str
    cards: frozenset[str]
    attempt: int
    failed: int = 1
    lost: int = 0


@dataclass(slots=True)
class _Tries:
    """What was tried of a test.

    Attributes:
        failures: how often that failed.
        lost: how often it was lost with its worker.
        cards: where it failed.
        last: the number of the last try that was begun.
        of_last: that of the last one that ended, with when it did, whether it failed and whether it was lost.
        outcome: whether any had one.
        settled: whether it was said, or is clear, that it is not run again.
    """

    failures: int = 0
    lost: int = 0
    cards: set[str] = field(default_factory=set)
    last: int = 0
    of_last: tuple[int, float, bool, bool] = (0, 0.0, False, False)
    outcome: bool = False
    settled: bool = False

    def ended(self, one: Try, *, card: str) -> None:
        """A try came to its end."""
        lost = one.outcome is Verdict.INFRASTRUCTURE
        bad = lost or one.outcome in FAILING
        self.last = max(self.last, one.number)
        self.outcome = self.outcome or not lost
        if lost:
            self.lost += 1
        elif bad:
            self.failures += 1
            self.cards.update(card.split("+") if card else ())
        # What was cut off may have run twice by one number.
        ended_at = (one.started_at or 0.0) + one.seconds
        self.of_last = max(self.of_last, (one.number, ended_at, bad, lost), key=lambda told: told[:2])

    def open(self, most: int) -> bool:
        """Whether it has a try left and no good end; one that never came to any end is left of the plan."""
        _, _, bad, lost = self.of_last
        return self.outcome and bad and not self.settled and (self.lost if lost else self.failures) <= most


def pending_retries(journals: Sequence[Journal], most: int, boot: str | None = None) -> list[Pending]:
    """The tests that failed at their last try and were to be tried again, in the order they were begun.

    Not among them are those without any outcome, which are left of the plan anyway, those that ran as often
    as they may, and those of which a run said at its end why they are not run again. How many may be run
    again in all is not looked at. On another machine the cards are others, whatever they are called: none of
    them is one it failed on, and that there was no other card is no reason any more.

    Args:
        journals: all there are of the run, by shard and attempt.
        most: how often a test is run again.
        boot: this machine's `boot_id`, empty for one that no journal is of; None: all are this one's.
    """
    tries: dict[str, _Tries] = {}
    for journal in journals:
        _read(state_of(journal.shard, journal.attempt, journal.events), tries, boot)
    return [
        Pending(name, frozenset(one.cards), one.last + 1, one.failures, one.lost)
        for name, one in tries.items()
        if one.open(most)
    ]


def _read(state: RunState, tries: dict[str, _Tries], boot: str | None) -> None:
    elsewhere = boot is not None and not state.boots <= {"", boot}
    for name, reason in state.no_retry.items():
        if not (elsewhere and reason.startswith(NO_OTHER_CARD)):
            tries.setdefault(name, _Tries()).settled = True
    for name, ended in state.tries.items():
        one = tries.setdefault(name, _Tries())
        for found in ended:
            if found.message == SILENT or found.outcome is Verdict.NOT_RUN:
                one.last = max(one.last, found.number)
                continue
            # What was to fail and passed is told apart already: another card says no more of it.
            one.settled = one.settled or found.message.startswith(XPASS_STRICT)
            one.ended(found, card="" if elsewhere else found.card or "")
    for name, begun in state.open.items():
        one = tries.setdefault(name, _Tries())
        one.last = max(one.last, begun.number)
