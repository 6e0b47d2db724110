"""A worker's world on paper: a clock that is moved by hand, and attempts that outlive who began them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ci.config.lanes_model import Lane, LaneWorker
from ci.lanes.attempt import End, Launch
from ci.lanes.ledger import Attempt, Ledger, Status
from ci.lanes.worker import Worker

NOON = 1_795_435_200.0  # 2026-11-23 12:00 UTC, a Monday
PASSED, FAILED = End(status=Status.PASSED, exit_code=0), End(status=Status.FAILED, exit_code=1)
LOST = End(status=Status.INCOMPLETE, exit_code=3, reason="no card was free")


class KilledError(BaseException):
    """The worker's process is gone."""


class Paper:
    """Attempts on paper, which go on whatever becomes of the worker.

    Attributes:
        ends: after how many seconds an attempt (lane, number) ends, and how.
        began: seconds of the world at which each began, by lane, due and number.
        stopped: those that were told to end.
        error: what starting one comes to; None: it starts.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.ends: Callable[[str, int], tuple[float, End]] = lambda _lane, _number: (60, PASSED)
        self.began: dict[tuple[str, str], float] = {}
        self.stopped: set[tuple[str, str]] = set()
        self.obeys = True
        self.error: Exception | None = None

    @staticmethod
    def _key(folder: Path) -> tuple[str, str]:
        return folder.parent.name, folder.name

    def start(self, folder: Path, launch: Launch) -> None:  # noqa: ARG002  # as Processes has it
        if self.error is not None:
            raise self.error
        assert self._key(folder) not in self.began, "it is begun twice"
        self.began[self._key(folder)] = self._world.mono

    def has_begun(self, folder: Path) -> bool:
        return self._key(folder) in self.began

    def end_of(self, folder: Path) -> End | None:
        lane, name = key = self._key(folder)
        after_s, end = self.ends(lane, int(name.rpartition("-")[2]))
        if self._world.mono >= self.began[key] + after_s:
            return end
        return End(status=Status.CANCELLED, exit_code=130) if key in self.stopped and self.obeys else None

    def stop(self, folder: Path) -> None:
        self.stopped.add(self._key(folder))


class Mortal:
    """Calls go through, and at one of them the process is gone: before it had its effect, or after."""

    def __init__(self, inner: Any, count: list[int], *, after: bool) -> None:
        self._inner, self._count, self._after = inner, count, after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*given: Any) -> Any:
            self._count[0] -= 1
            if self._count[0] == 0 and not self._after:
                raise KilledError
            answer = found(*given)
            if self._count[0] == 0:
                raise KilledError
            return answer

        return call


class World:
    """A place with lanes, and one worker after the other."""

    def __init__(self, folder: Path, lanes: Mapping[str, Lane], now: float = NOON, **worker: Any) -> None:
        self.lanes, self.folder = dict(lanes), folder
        self.settings = LaneWorker.model_validate({"poll_s": 30, **worker})
        self.now, self.mono = now, 1000.0
        self.ledger: Any = Ledger(folder / "lanes.sqlite", synchronous="OFF")
        self.paper = Paper(self)
        self.said: list[str] = []
        self.heard: list[int] = []
        self.until = math.inf
        self.at: dict[float, Callable[[], object]] = {}

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.mono += seconds
        for moment in sorted(self.at):
            if self.mono >= moment:
                self.at.pop(moment)()
        if self.mono >= self.until:
            self.heard.append(15)
            self.until = math.inf

    def worker(self, **given: Any) -> Worker:
        ready: dict[str, Any] = {
            "lanes": self.lanes, "chosen": frozenset(self.lanes), "settings": self.settings, "stage": 1,
            "ledger": self.ledger, "folder": self.folder, "processes": self.paper,
            "launch": lambda *_: Launch(command=["x"], environ={}, cwd=self.folder, limit_s=1, ending_s=1),
            "wall": lambda: self.now, "ticks": lambda: self.mono, "sleep": self.sleep,
            "say": self.said.append,
        }  # fmt: skip
        return Worker(**{**ready, **given})

    def work(self, hours: float, **given: Any) -> Worker:
        """A worker from now on for so many hours, then told to end."""
        self.heard, self.until = [], self.mono + hours * 3600
        worker = self.worker(**given)
        worker.work(self.heard, once=False)
        return worker

    def once(self, *, by_hand: bool = False, **given: Any) -> Worker:
        self.heard = []
        worker = self.worker(**given)
        worker.work(self.heard, once=True, by_hand=by_hand)
        return worker

    def die(self, call: int, *, after: bool, until: float) -> bool:
        """A worker whose process is gone at a call; whether that came before a moment of the world."""
        count = [call]
        self.heard, self.until = [], max(until - self.now + self.mono, self.mono + 1)
        inner = {"processes": self.paper, "ledger": self.ledger}
        mortal = {name: Mortal(one, count, after=after) for name, one in inner.items()}
        try:
            self.worker(**mortal).work(self.heard, once=False)
        except KilledError:
            return True
        return False

    def runs(self, *lanes: str) -> list[list[Attempt]]:
        """The oldest first."""
        found: list[list[Attempt]] = self.ledger.history(lanes or None, 100_000)
        return found[::-1]
