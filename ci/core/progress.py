"""Progress of long work: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ci.core.text import span

LINE_EVERY_S = 10.0
SILENCE_S = 60.0
TICK_S = 1.0
# Of a command whose lines are shown as they come.
QUIET_S = 10.0


class Bar:
    """One piece of long work.

    Args:
        progress: counts its steps; where it is disabled, there are lines instead of it.
        name: what is being done.
        total: how many steps it has.
    """

    def __init__(self, progress: Progress, name: str, total: int) -> None:
        self.total = total
        self._progress, self._name = progress, name
        self._task = progress.add_task(name, total=total, note="")
        self._said = progress.get_time()

    def advance(self, note: str, steps: int = 1) -> None:
        """Some steps are done; `note` is the newest thing worth reading."""
        self._progress.update(self._task, advance=steps, note=note)
        task = self._progress.tasks[0]
        if task.completed < self.total:
            left = f"({task.speed or 0:.1f}/s, about {task.time_remaining or 0:.0f} s left)"
            self._line(LINE_EVERY_S, f" {note} {left}")

    def expect(self, total: int) -> None:
        """The work turned out to have so many steps."""
        self.total = total
        self._progress.update(self._task, total=total)

    def tick(self) -> None:
        """Time has passed; where it was too long without a line, write one, or a CI may end the job."""
        self._line(SILENCE_S, ", still at it")

    def warn(self, text: str) -> None:
        """A line that stays, above the bar."""
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _line(self, after_s: float, text: str) -> None:
        if self._progress.disable and self._progress.get_time() - self._said >= after_s:
            self._said = self._progress.get_time()
            self.warn(f"{self._name} {self._progress.tasks[0].completed:.0f}/{self.total}{text}")


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
    last = "no output yet"

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
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    lines = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=lines, get_time=clock) as progress:
        shown = Bar(progress, name, total)
        with ticking(shown.tick, TICK_S) if lines else contextlib.nullcontext():
            yield shown
