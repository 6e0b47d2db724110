"""Showing a run: one listener for its journals' events, a view for people, a sink for other tools."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from rich.console import Console

from ci.core.progress import ticking
from ci.core.provider import in_log
from ci.core.workflow_commands import Defused
from ci.live import stream
from ci.live.lines import Lines
from ci.live.news import News
from ci.live.screen import Screen
from ci.live.sink import Sink
from ci.live.state import State
from ci.live.words import Again
from ci.record.events import JournalEvent

TICK_S = 0.5


class View(Protocol):
    """What shows a run to people."""

    def tell(self, news: News, state: State, now: float) -> None:
        """Something happened."""

    def tick(self, state: State, now: float) -> None:
        """Time has passed."""

    def end(self, state: State, now: float) -> None:
        """The run is over."""


class Watcher:
    """Takes the events of all shards' journals; may be called from several threads."""

    def __init__(self, state: State, view: View, sink: Sink | None, clock: Callable[[], float]) -> None:
        self.state = state
        self._view, self._sink, self._clock = view, sink, clock
        self._lock = threading.Lock()

    def take(self, shard: int, event: JournalEvent) -> None:
        """One event of one shard's journal."""
        with self._lock:
            now = self._clock()
            self._tell(self.state.take(shard, event, now), now)

    def tick(self) -> None:
        """Time has passed."""
        with self._lock:
            self._view.tick(self.state, self._clock())

    def finish(self, *, interrupted: bool) -> None:
        """The run is over."""
        with self._lock:
            now = self._clock()
            self._tell(self.state.finish(now, interrupted=interrupted), now)
            self._view.end(self.state, now)

    def _tell(self, news: Iterable[News], now: float) -> None:
        for one in news:
            if self._sink is not None:
                self._sink.write(stream.row(one))
            self._view.tell(one, self.state, now)


def view_for(console: Console, environ: Mapping[str, str], again: Again) -> Lines | Screen:
    """A bar on a terminal; lines in a CI's log, in a file, and where a terminal can do no better.

    Args:
        console: for people.
        environ: the environment.
        again: the command that runs a test once more, by id.
    """
    if console.is_terminal and not console.is_dumb_terminal and not in_log(environ):
        return Screen(console=console, again=again)

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    command = console.file.command if isinstance(console.file, Defused) else None
    return Lines(say=say, again=again, command=command)


@contextlib.contextmanager
def watching(watcher: Watcher, view: Lines | Screen, clock: Callable[[], float]) -> Iterator[None]:
    """Keep the view moving while the block runs; a run that says nothing still has its line now and then.

    Args:
        watcher: takes the events.
        view: that it tells.
        clock: monotonic seconds.
    """
    if isinstance(view, Screen):
        view.begin(watcher.state, clock())
    try:
        with ticking(watcher.tick, TICK_S):
            yield
    finally:
        if isinstance(view, Screen):
            view.end(watcher.state, clock())
