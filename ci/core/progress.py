"""Progress of long work: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import TimeRemainingColumn as RemainingColumn

from ci.core.text import span

LINE_EVERY_S = 10.0
SILENCE_S = 60.0
TICK_S = 1.0
# Of a command whose lines are shown as they come.
QUIET_S = 10.0


@dataclass(slots=True, kw_only=True)
class Bar:
    """One piece of long work.

    Attributes:
        name: what is being done.
        total: how many steps it has.
    """

    name: str
    total: int
    _console: Console
    _clock: Callable[[], float]
    _done: int = 0
    _progress: Progress | None = None
    _task: TaskID = field(default=TaskID(0))
    _first: float | None = None
    _said: float = 0.0

    def advance(self, note: str, steps: int = 1) -> None:
        """Some steps are done; `note` is the newest thing worth reading."""
        self._done += steps
        if self._first is None:
            # What came before the first step (importing torch) says nothing of the speed of the others.
            self._first = self._clock()
        if self._progress is not None:
            self._progress.update(self._task, completed=self._done, note=note)
        elif self._done < self.total and (now := self._clock()) - self._said >= LINE_EVERY_S:
            self._said = now
            rate = self._done / max(now - self._first, 1.0)
            left = (self.total - self._done) / rate if rate else 0
            self._say(f"{self.name} {self._done}/{self.total} {note} ({rate:.1f}/s, about {left:.0f} s left)")

    def expect(self, total: int) -> None:
        """The work turned out to have so many steps."""
        self.total = total
        if self._progress is not None:
            self._progress.update(self._task, total=total)

    def tick(self) -> None:
        """Time has passed; where it was too long without a line, write one, or a CI may end the job."""
        if self._progress is None and (now := self._clock()) - self._said >= SILENCE_S:
            self._said = now
            self._say(f"{self.name} {self._done}/{self.total}, still at it")

    def warn(self, text: str) -> None:
        """A line that stays, above the bar."""
        self._say(text)

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def ticking(
    tick: Callable[[], object],
    every_s: float,
    *,
    at_once: bool = False,
    name: str = "progress",
    stop_s: float | None = None,
) -> Iterator[None]:
    """Call `tick` from a thread of its own every so many seconds while the block runs.

    Args:
        tick: what is called.
        every_s: seconds between two calls.
        at_once: whether the thread begins with a call.
        name: of the thread.
        stop_s: seconds a call that is under way has when the block ends; None: as long as it takes.
    """
    over = threading.Event()

    def keep_on() -> None:
        if at_once:
            tick()
        while not over.wait(every_s):
            tick()

    thread = threading.Thread(target=keep_on, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(stop_s)


@contextlib.contextmanager
def showing_life(
    say: Callable[[str], object], clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[str], None]]:
    """Hand lines on as they come, and say every ten seconds without one for how long there was none.

    Args:
        say: takes lines for people.
        clock: seconds, monotonic.
    """
    heard = told = clock()
    last = "it has said nothing yet"

    def line(text: str) -> None:
        nonlocal heard, last
        heard, last = clock(), text
        say(text)

    def tick() -> None:
        nonlocal told
        if (now := clock()) - max(heard, told) >= QUIET_S:
            told = now
            say(f"still at it, silent for {span(now - heard)}: {last}")

    with ticking(tick, min(TICK_S, QUIET_S)):
        yield line


@contextlib.contextmanager
def bar(console: Console, clock: Callable[[], float], name: str, total: int) -> Iterator[Bar]:
    """Show progress while the block runs.

    Args:
        console: where; whether it is a terminal decides between bar and lines.
        clock: seconds, monotonic.
        name: what is being done.
        total: how many steps it has.
    """
    now = clock()
    if not console.is_terminal:
        lines = Bar(name=name, total=total, _console=console, _clock=clock, _said=now)
        with ticking(lines.tick, TICK_S):
            yield lines
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        RemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(name, total=total, note="")
        yield Bar(name=name, total=total, _console=console, _clock=clock, _progress=progress, _task=task)
