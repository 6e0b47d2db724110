"""A post: a card (or several as one) with its worker, as the supervisor sees it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ci.record.journal import Event
from ci.runner.cards import Card, together
from ci.runner.dispatch import Job
from ci.runner.link import Attempt, Link
from ci.runner.messages import Order
from ci.runner.patience import NEVER_ENDS

# A card that died without a word fails everything: after so many failures in a row it is checked.
FAILURES_IN_A_ROW = 3


@dataclass(slots=True, kw_only=True)
class Post:
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
        current: the id that runs.
        crashed: whether a process of the job had to be replaced.
        broken: the files that could not be set up here, with the reason.
        leaving: whether it was told that there is nothing more to do.
        finished: whether its journal says that its work for the shard is over.
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
    """

    cards: Sequence[Card]
    link: Link
    shard: int
    heard: float
    ready: bool = False
    job: Job | None = None
    restarts: int = 0
    ended: set[str] = field(default_factory=set)
    current: str | None = None
    crashed: bool = False
    broken: dict[str, str] = field(default_factory=dict)
    leaving: bool = False
    finished: bool = False
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

    @property
    def card(self) -> Card:
        """The card, or all of them as one."""
        return together(self.cards)

    @property
    def idle(self) -> bool:
        """Whether it waits for something to do."""
        return self.ready and self.job is None

    @property
    def busy(self) -> bool:
        """Whether it is to say something."""
        return self.job is not None or not self.ready

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
        self.broken.clear()
        self.heard = time.monotonic()
        self.ready = False  # until it says that it has begun

    def leave(self) -> None:
        """Tell it that there is nothing more to do: it ends by itself."""
        self.leaving, self.ready, self.job = True, False, None
        self.heard = time.monotonic()
        self.link.dismiss()

    def kill(self) -> None:
        """End it, now."""
        self.killed_at = time.monotonic()
        self.link.process.kill()

    def take(self, event: Event) -> None:
        """Note what its journal says."""
        self.take_blame(event)
        match event.get("e"):
            case "start":
                self.current = event["id"]
            case "end" | "crash":
                self.ended.add(event["id"])
                self.current = None
                self.crashed = self.crashed or event["e"] == "crash"
                self._count(event)
            case "worker_lost" if event["id"] is not None:
                self.ended.add(event["id"])
                self.current = None
            case "group_ready":
                self.broken.pop(event["file"], None)
            case "not_run":
                self.ended.update(event["ids"])
            case "respawn":
                self.crashed = True
            case "file_error":
                self.broken[event["file"]] = event["message"]
            case "shard_start":
                self.finished = False
            case "shard_end":
                self.finished = True
            case _:
                pass

    def check(self) -> None:
        """Have the card checked before anything runs on it."""
        self.checking, self.check_at, self.fault = True, None, None
        self.heard = time.monotonic()
        self.ready = self.checked = False
        self.row, self.suspect = 0, False
        self.link.order(Order(do="check"))

    def in_vain(self, event: Event) -> list[str]:
        """The ids of a retry that an event says were not run, for their file cannot be had or lacks them."""
        if event.get("e") != "not_run" or self.job is None or self.job.why != "retry":
            return []
        return [name for name in event["ids"] if name in self.job.piece.ids]

    def _count(self, event: Event) -> None:
        outcome = event.get("outcome")
        # An expected failure may be the card's as well as the test's; what was skipped, and what ended with
        # its process, says nothing of the card.
        if outcome is not None and outcome not in {"xfailed", "skipped"}:
            self.row = self.row + 1 if outcome == "failed" else 0
        self.suspect = self.suspect or self.row >= FAILURES_IN_A_ROW

    def take_blame(self, event: Event) -> None:
        """Note where it is the card's fault."""
        said = event.get("e")
        checked = said == "card_check" and not event["ok"]
        never_ends = checked and not event.get("ended", True)
        # A check after a crash is told of once more, with the crash; its process has the card all the same.
        checked = checked and (event["why"] == "order" or never_ends)
        if (
            not checked
            and said != "card_fault"
            and "hardware" not in (event.get("outcome"), event.get("cause"))
        ):
            return
        self.fault, self.certain = str(event["message"]), bool(event.get("ras"))
        self.stuck = self.stuck or never_ends or self.fault.startswith(NEVER_ENDS)
