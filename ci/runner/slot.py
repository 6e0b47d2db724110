"""A slot: a card (or several as one) with its worker, as the supervisor sees it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ci.record.events import JournalEvent
from ci.record.result import SILENT, Try
from ci.record.run_state import RunState
from ci.record.verdict import Verdict
from ci.runner.channel import Attempt, Order
from ci.runner.child import KILL_S, NEVER_ENDS
from ci.runner.inventory import Card, together
from ci.runner.retries import Outcomes
from ci.runner.scheduler import Job
from ci.runner.worker_process import WorkerProcess

# When a card that failed its check has another.
RECHECK_S = 1.0
# A card that died without a word fails everything: after so many failures in a row it is checked.
FAILURES_IN_A_ROW = 3


# Outcomes that say nothing of the card.
_NO_WORD_ON_THE_CARD = frozenset({Verdict.XFAILED, Verdict.SKIPPED, Verdict.INFRASTRUCTURE, Verdict.NOT_RUN})


@dataclass(slots=True, kw_only=True)
class WorkerSlot:
    """A worker at its card.

    Attributes:
        cards: those it holds.
        link: to the worker.
        shard: the index of the shard it works for.
        heard: when it last said or wrote something, in monotonic seconds.
        ready: whether it has imported what it needs.
        job: what it was told to do and has not answered; None while it waits.
        restarts: how often its worker was replaced.
        ended: ids of the job that have an outcome.
        crashed: whether a process of the job had to be replaced.
        broken: the files that could not be set up here, with the reason.
        leaving: whether it was told that there is nothing more to do.
        checking: whether its card is being checked, or will be at `check_at`.
        check_at: when the card is to be checked once more, in monotonic seconds.
        checked: whether the card has passed its check and has had no fault since.
        fault: what the card did wrong, until it is dealt with.
        certain: whether the card itself said so.
        sick: whether its card is out of the run.
        row: how many tests have failed in a row.
        suspect: whether so many did that the card may be dead.
        killed_at: when it was killed, in monotonic seconds.
        stuck: whether a process that has its card open cannot be ended.
        state: what its journal says; of which shard and attempt that is, the link knows.
    """

    cards: Sequence[Card]
    link: WorkerProcess
    shard: int
    heard: float
    ready: bool = False
    job: Job | None = None
    restarts: int = 0
    ended: set[str] = field(default_factory=set)
    crashed: bool = False
    broken: dict[str, str] = field(default_factory=dict)
    leaving: bool = False
    checking: bool = False
    check_at: float | None = None
    checked: bool = False
    fault: str | None = None
    certain: bool = False
    sick: bool = False
    row: int = 0
    suspect: bool = False
    killed_at: float | None = None
    stuck: bool = False
    state: RunState = field(default_factory=lambda: RunState(shard=0, attempt=1))

    @property
    def finished(self) -> bool:
        """Whether its journal says that its work for the shard is over, or it has not begun another yet."""
        return bool(self.state.status)

    @property
    def card(self) -> Card:
        """The card, or all of them as one."""
        return together(self.cards)

    @property
    def idle(self) -> bool:
        """Whether it waits for something to do."""
        return self.ready and self.job is None

    @property
    def number(self) -> int:
        """Which try of its tests this is."""
        return 1 if self.job is None else self.job.attempt

    @property
    def attempt(self) -> Attempt:
        """The attempt at a shard whose journal it writes."""
        return self.link.attempt

    def begin(self, job: Job, order: Order) -> None:
        """Hand it a job."""
        self.job = job
        self.heard = time.monotonic()  # it was not to say anything before
        self.ended.clear()
        self.crashed = False
        self.link.order(order)

    def go_on(self, shard: int, attempt: Attempt) -> None:
        """Have it work for another shard; its journal so far was read."""
        self.link.go_on(attempt)
        self.shard = shard
        self.state = RunState(shard=0, attempt=1, status="done")  # until it has begun
        self.broken.clear()
        self.heard = time.monotonic()
        self.ready = False  # until it says that it has begun

    def became_ready(self, *, check: bool) -> bool:
        """It is ready, or has checked its card, which it does first where asked to; whether that was well."""
        if self.fault is not None:
            return False
        if check and not self.checking and not self.checked:
            self.check()
            return False
        found, self.ready, self.checking, self.checked = self.checking, True, False, True
        return found

    def forgive(self, *, check: bool) -> None:
        """Go on with a card that had a fault, once it was checked, where it is."""
        self.fault = None
        if check:
            self.ready, self.checking, self.check_at = False, True, time.monotonic() + RECHECK_S

    def look(self, now: float, *, silence_s: float) -> bool:
        """Kill one that has said nothing for too long, and check a card when it is time.

        Returns:
            Whether it was killed long ago and is there all the same.
        """
        if self.killed_at is not None:
            return now - self.killed_at > KILL_S
        if not self.idle and now - self.heard > silence_s:
            self.kill()  # stuck in a driver, or stopped: its child's time-outs need it
        elif self.check_at is not None and now >= self.check_at:
            self.check()
        return False

    def leave(self) -> None:
        """Tell it that there is nothing more to do: it ends by itself."""
        self.leaving, self.ready, self.job = True, False, None
        self.heard = time.monotonic()
        self.link.dismiss()

    def kill(self) -> None:
        """End it, now."""
        self.killed_at = time.monotonic()
        self.link.process.kill()

    def take(self, event: JournalEvent) -> Outcomes:
        """Note what its journal says next."""
        state = self.state
        state.take(event)
        self._blame(state)
        ended = {name: tries[-1] for name, tries in state.drain().items() if tries[-1].message != SILENT}
        given_up = {name: one.message for name, one in ended.items() if one.outcome is Verdict.NOT_RUN}
        given_up |= state.not_run
        self.ended |= ended.keys() | given_up.keys()
        self.crashed = self.crashed or state.latest.respawned
        for one in ended.values():
            self.crashed = self.crashed or one.cause is not None
            self._count(one)
        self.broken |= {file: error.message for file, error in state.file_errors.items()}
        self.broken.pop(state.latest.ready_file, None)
        state.not_run.clear()
        state.file_errors.clear()
        retried = self.job.piece.ids if self.job is not None and self.job.why == "retry" else ()
        return Outcomes(ended, {name: why for name, why in given_up.items() if name in retried})

    def check(self) -> None:
        """Have the card checked before anything runs on it."""
        self.checking, self.check_at, self.fault = True, None, None
        self.heard = time.monotonic()
        self.ready = self.checked = False
        self.row, self.suspect = 0, False
        self.link.order(Order(do="check"))

    def _count(self, one: Try) -> None:
        # An expected failure may be the card's as well as the test's; what was skipped, and what ended with
        # its process or its worker, says nothing of the card.
        if one.cause is None and one.outcome not in _NO_WORD_ON_THE_CARD:
            self.row = self.row + 1 if one.outcome is Verdict.FAILED else 0
        self.suspect = self.suspect or self.row >= FAILURES_IN_A_ROW

    def _blame(self, state: RunState) -> None:
        if (fault := state.latest.fault) is not None:
            self.fault, self.certain = fault.message, bool(fault.ras)
            self.stuck = self.stuck or fault.held or fault.message.startswith(NEVER_ENDS)
