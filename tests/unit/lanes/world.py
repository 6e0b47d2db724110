"""A worker's world on paper: a clock that is moved by hand, and runs that outlive who began them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ci.config.lanes_model import Lane, LaneWorker
from ci.lanes.order import Order, Seen, Standing
from ci.lanes.store import Store
from ci.lanes.tending import Hands
from ci.lanes.worker import Worker

NOON = 1_795_435_200.0  # 2026-11-23 12:00 UTC, a Monday
PASSED = Seen(standing=Standing.PASSED, exit_code=0)
FAILED = Seen(standing=Standing.FAILED, exit_code=1)
LOST = Seen(standing=Standing.INCOMPLETE, exit_code=3, said="no card was free")


class KilledError(BaseException):
    """The worker's process is gone."""


class TwiceError(BaseException):
    """What must not be was; no worker may take it for a failure of a lane."""


@dataclass
class Paper:
    """An executor on paper; what it began goes on whatever becomes of the worker."""

    ticks: Callable[[], float]
    ends: Callable[[Order], tuple[float, Seen]] = lambda _: (60, PASSED)
    began: dict[str, float] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    away: Exception | None = None
    obeys: bool = True

    def _ask(self) -> None:
        if self.away is not None:
            raise self.away

    def find(self, order: Order) -> str | None:
        self._ask()
        return order.id if order.id in self.began else None

    def start(self, order: Order) -> str:
        self._ask()
        if order.id in self.began or not order.folder.is_dir():
            raise TwiceError(f"{order.id} is begun twice, or has no folder")
        self.began[order.id] = self.ticks()
        return order.id

    def look(self, order: Order, reference: str) -> Seen:
        self._ask()
        assert reference == order.id
        if order.id in self.cancelled and self.obeys:
            return Seen(standing=Standing.INCOMPLETE, exit_code=130)
        after_s, seen = self.ends(order)
        return seen if self.ticks() >= self.began[order.id] + after_s else Seen(standing=Standing.RUNNING)

    def cancel(self, order: Order, reference: str) -> None:
        assert reference == order.id
        self._ask()
        self.cancelled.add(order.id)

    def fetch(self, order: Order, reference: str) -> None:
        assert reference == order.id


class Mortal:
    """Calls go through, and at one of them the process is gone: before it had its effect, or after."""

    def __init__(self, inner: Any, count: list[int], *, after: bool) -> None:
        self._inner, self._count, self._after = inner, count, after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*given: Any, **named: Any) -> Any:
            self._count[0] -= 1
            if self._count[0] == 0 and not self._after:
                raise KilledError
            answer = found(*given, **named)
            if self._count[0] == 0:
                raise KilledError
            return answer

        return call


class World:
    """A place with lanes, and one worker after the other."""

    def __init__(self, folder: Path, lanes: Mapping[str, Lane], **worker: Any) -> None:
        self.lanes, self.folder = dict(lanes), folder
        self.settings = LaneWorker.model_validate({"poll_s": 10, **worker})
        self.now, self.mono = NOON, 1000.0
        self.store = Store(folder / "lanes.sqlite")
        self.local, self.far = Paper(lambda: self.mono), Paper(lambda: self.mono)
        self.said: list[str] = []
        self.heard: list[int] = []
        self.until = NOON
        self.insists = False
        self.at: dict[float, Callable[[], object]] = {}

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.mono += seconds
        for moment in sorted(self.at):
            if self.mono >= moment:
                self.at.pop(moment)()
        if self.mono >= self.until:
            self.heard.append(15)
            self.until = self.mono if self.insists else math.inf

    def hands(self, **given: Any) -> Hands:
        ready: dict[str, Any] = {
            "lanes": self.lanes,
            "chosen": frozenset(self.lanes),
            "settings": self.settings,
            "stage": 1,
            "store": self.store,
            "folder": self.folder,
            "runs": self.folder / "runs",
            "executors": {"local": self.local, "openshift": self.far},
            "wall": lambda: self.now,
            "ticks": lambda: self.mono,
            "sleep": self.sleep,
            "say": self.said.append,
        }
        return Hands(**{**ready, **given})

    def work(self, hours: float, **given: Any) -> Worker:
        """A worker from now on for so many hours, then told to end."""
        self.heard = []
        self.until = self.mono + hours * 3600
        return self._work(once=False, **given)

    def once(self, *, by_hand: bool = False, **given: Any) -> Worker:
        self.heard, self.until = [], self.mono + 1e9
        return self._work(once=True, by_hand=by_hand, **given)

    def _work(self, *, once: bool, by_hand: bool = False, **given: Any) -> Worker:
        worker = Worker(self.hands(**given))
        try:
            worker.work(self.heard, once=once, by_hand=by_hand)
        finally:
            self.store.close()
        return worker

    def die(self, call: int, *, after: bool) -> bool:
        """A worker whose process is gone at a call; whether it came so far within a day."""
        count = [call]
        mortal = {
            "local": Mortal(self.local, count, after=after),
            "openshift": Mortal(self.far, count, after=after),
        }
        self.heard, self.until = [], self.mono + 24 * 3600
        try:
            self._work(once=False, executors=mortal, store=Mortal(self.store, count, after=after))
        except KilledError:
            return True
        return False


def elsewhere(lane: Lane) -> Lane:
    """The lane as one of a Jenkins."""
    where = {"openshift": {"spec": "job.yaml"}}
    return Lane.model_validate({**lane.model_dump(exclude_none=True), "where": where})


def without(lane: Lane, **given: Any) -> Lane:
    """The lane with other settings."""
    return Lane.model_validate({**lane.model_dump(exclude_none=True), **given})


__all__ = ["FAILED", "LOST", "NOON", "PASSED", "Paper", "World", "elsewhere", "replace", "without"]
