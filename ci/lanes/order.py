"""What a lane's run is: an order, where it stands, and how whoever carries it out is asked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class Standing(StrEnum):
    """Where an attempt stands; all but the first two are ends."""

    STARTING = "starting"
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed out"
    GONE = "gone"

    @property
    def ended(self) -> bool:
        """Whether nothing more comes of it."""
        return self not in {Standing.STARTING, Standing.RUNNING}

    @property
    def answered(self) -> bool:
        """Whether it told what was asked; what did not is tried again. Who cancels does not want it again."""
        return self in {Standing.PASSED, Standing.FAILED, Standing.CANCELLED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One attempt of one run of a lane, as it is given to an executor.

    Attributes:
        lane: name of the lane.
        due: when the run was due, in whole seconds since the epoch: with the lane's name, its identity.
        attempt: from 1.
        seed: for what is drawn at random in it.
        folder: of this attempt, for its output and what comes back; it is there.
    """

    lane: str
    due: int
    attempt: int
    seed: int
    folder: Path

    @property
    def id(self) -> str:
        """What an executor knows it by: the same for the same attempt, whoever asks (law 6)."""
        return f"{self.lane}-{self.due}-{self.attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What an executor says of an attempt.

    Attributes:
        standing: where it stands.
        exit_code: by the design's table; None while it runs, or where nobody knows.
        said: why, in words; empty where there is nothing to say.
        url: page of it; empty where there is none.
    """

    standing: Standing
    exit_code: int | None = None
    said: str = ""
    url: str = ""


class Executor(Protocol):
    """Carries orders out: here, or on a CI far away.

    What cannot be asked for now raises an error with exit code 3 (another time may do); any other
    SpyreCiError means that it will never do, and ends the attempt as incomplete with these words.
    """

    def find(self, order: Order) -> str | None:
        """The reference of an order that was started before, as after a crash between start and note."""

    def start(self, order: Order) -> str:
        """Start it, and give the reference by which it is asked for: JSON or plain text, without secrets."""

    def look(self, order: Order, reference: str) -> Seen:
        """Where it stands; `GONE` where it was started and is nowhere any more."""

    def cancel(self, order: Order, reference: str) -> None:
        """Ask for its end; one that ended is no error."""

    def fetch(self, order: Order, reference: str) -> None:
        """Bring back what it left into the order's folder, where it lies elsewhere; again is no harm."""
