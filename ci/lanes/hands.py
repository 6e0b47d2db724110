"""What a worker works with, and how it speaks of attempts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ci.config.lanes_model import Lane, LaneWorker
from ci.lanes.noted import Attempt
from ci.lanes.order import Executor, Order
from ci.lanes.store import Store
from ci.lanes.turn import clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """What a worker works with.

    Attributes:
        lanes: all of the settings.
        chosen: names of those it begins.
        settings: of the worker.
        stage: the one in force.
        store: its state.
        folder: below which each attempt has its own.
        runs: the folder of runs, where a cluster's are planned and reported.
        executors: by kind.
        wall: seconds since the epoch, which may jump.
        ticks: seconds that do not.
        sleep: waits so many seconds.
        say: takes a line for people.
    """

    lanes: Mapping[str, Lane]
    chosen: frozenset[str]
    settings: LaneWorker
    stage: int
    store: Store
    folder: Path
    runs: Path
    executors: Mapping[str, Executor]
    wall: Callable[[], float]
    ticks: Callable[[], float]
    sleep: Callable[[float], object]
    say: Callable[[str], object]

    def order(self, attempt: Attempt) -> Order:
        """An attempt as its executor knows it."""
        return Order(
            lane=attempt.lane,
            due=attempt.due,
            attempt=attempt.number,
            seed=attempt.seed,
            folder=folder_of(self.folder, attempt),
        )

    def named(self, attempt: Attempt) -> str:
        """An attempt in words; its lane is said before."""
        return f"attempt {attempt.number} of the run due {clock(attempt.due, self.settings.zone)}"


@dataclass(slots=True)
class Voice:
    """Lines with the name of their lane; what stays the same is said once."""

    say: Callable[[str], object]
    _last: dict[str, str] = field(default_factory=dict)

    def line(self, lane: str, text: str) -> None:
        """Say a line of a lane."""
        self._last.pop(lane, None)
        self.say(f"{lane}: {text}")

    def once(self, lane: str, text: str) -> None:
        """Say a line unless it was the last one of its lane, as what is found at every pass."""
        if self._last.get(lane) != text:
            self.line(lane, text)
            self._last[lane] = text


def folder_of(folder: Path, attempt: Attempt) -> Path:
    """The folder of an attempt."""
    return folder / attempt.lane / f"{attempt.due}-{attempt.number}"
