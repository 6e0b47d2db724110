"""What is heard of a job, put on its board and shown; time passes in a thread of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from ci.core.progress import ticking
from ci.jobs.board import Board
from ci.jobs.fate import Fate
from ci.jobs.standing import Standing

TICK_S = 0.5


class View(Protocol):
    """What shows a job to people."""

    def tell(self, fate: Fate) -> None:
        """A pod ended badly."""

    def show(self, board: Board, now: float) -> None:
        """What is known has changed, or time has passed."""

    def end(self, board: Board) -> None:
        """The watch is over."""


class Watcher:
    """Takes what is heard of a job.

    Args:
        board: of the job.
        view: that shows it.
        clock: monotonic seconds.
    """

    def __init__(self, board: Board, view: View, clock: Callable[[], float]) -> None:
        self.board = board
        self._view, self._clock = view, clock
        self._lock = threading.Lock()

    def take(self, kind: str, pod: Mapping[str, Any]) -> None:
        """One event of a watch."""
        with self._lock:
            now = self._clock()
            if (fate := self.board.take(kind, pod, now)) is not None:
                self._view.tell(fate)
            self._view.show(self.board, now)

    def relist(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """All pods there are."""
        with self._lock:
            now = self._clock()
            for fate in self.board.relist(pods, now):
                self._view.tell(fate)
            self._view.show(self.board, now)

    def look(self, standing: Standing) -> None:
        """What the job's controller says now."""
        with self._lock:
            self.board.look(standing, self._clock())

    def stalled_s(self) -> float:
        """For how many seconds nothing has run, while pods are pending."""
        return self.board.stalled_s(self._clock())

    @contextlib.contextmanager
    def moving(self) -> Iterator[None]:
        """Within, the view moves though nothing happens; it ends with the block."""
        try:
            with ticking(self._tick, TICK_S, name="watch"):
                yield
        finally:
            self._view.end(self.board)

    def _tick(self) -> None:
        with self._lock:
            self._view.show(self.board, self._clock())
