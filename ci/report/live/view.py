"""Show a run: on a terminal or in a log for people, and as events for other tools."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ci.core import workflow_commands
from ci.core.progress import ticking
from ci.core.provider import in_log
from ci.core.text import counted, one_line
from ci.core.workflow_commands import Defused
from ci.record.events import JournalEvent
from ci.record.verdict import BROKEN, Verdict
from ci.report.live import events
from ci.report.live.events import Sink
from ci.report.live.news import Ended, FileEnded, News
from ci.report.live.progress_text import (
    about,
    cards_line,
    detail_lines,
    file_line,
    news_line,
    overall,
    problems,
    reason_lines,
    slow_line,
    test_line,
    work_of,
)
from ci.report.live.state import State

# Services end jobs that say nothing for some minutes.
SILENCE_S = 60.0
MAX_DETAIL_LINES = 30
# What scrolls by faster than it is read is no use; the ending and the report have the others.
MAX_SHOWN = 100
MAX_ROWS = 8
BAR_WIDTH = 30
TICK_S = 0.5
Say = Callable[[str], None]


class Watcher:
    """Takes the events of all shards' journals; may be called from several threads."""

    def __init__(
        self, state: State, view: Lines | Screen, sink: Sink | None, clock: Callable[[], float]
    ) -> None:
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
                self._sink.write(events.row(one))
            self._view.tell(one, self.state, now)


def view_for(console: Console, environ: Mapping[str, str], *, verbosity: int = 0) -> Lines | Screen:
    """A bar on a terminal; lines in a CI's log, in a file, and where a terminal can do no better.

    Args:
        console: for people.
        environ: the environment.
        verbosity: above 0 each test's end is a line, below 0 only what went wrong is.
    """
    if console.is_terminal and not console.is_dumb_terminal and not in_log(environ):
        return Screen(console=console, verbosity=verbosity)

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    command = console.file.command if isinstance(console.file, Defused) else None
    return Lines(say=say, command=command, verbosity=verbosity)


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


@dataclass(slots=True, kw_only=True)
class Lines:
    """Writes a run into a log.

    Attributes:
        say: takes a line for people.
        command: takes a workflow command of GitHub; None elsewhere.
        verbosity: above 0 each test's end is a line, below 0 only what failed is.
    """

    say: Say
    command: Say | None = None
    verbosity: int = 0
    _said_at: float | None = None
    _shown: int = 0
    _slow: dict[int, tuple[str, float]] = field(default_factory=dict)
    _annotated: dict[str, Ended] = field(default_factory=dict)

    def tell(self, news: News, state: State, now: float) -> None:
        """Write what one piece of news is worth."""
        if isinstance(news, FileEnded):
            self._file(news, state, now)
        elif line := news_line(news):
            self._shown += 1
            if self._shown <= MAX_SHOWN:
                self.say(line)
            if isinstance(news, Ended) and self.command is not None:
                self._failure(news, self.command)
        elif self.verbosity > 0 and isinstance(news, Ended):
            self.say(test_line(news))
        else:
            return
        self._said_at = now

    def tick(self, state: State, now: float) -> None:
        """Name tests that are slow, once each, and break a silence that has lasted too long."""
        for worker in state.at_work:
            begun = (worker.state.running or "", worker.since)
            if self._slow.get(worker.state.shard) != begun and (line := slow_line(state, worker, now)):
                self._slow[worker.state.shard] = begun
                self.say(line)
                self._said_at = now
        if self._said_at is None:
            self._said_at = now
        if now - self._said_at >= SILENCE_S:
            self.say(f"still running: {overall(state, now)}; {cards_line(state, now)}")
            self._said_at = now

    def end(self, state: State, now: float) -> None:  # noqa: ARG002  # as every view has it
        """The run is over: mark the failures in GitHub, as many as it shows."""
        if self._shown > MAX_SHOWN:
            self.say(f"{self._shown - MAX_SHOWN:,} more such lines are left out; the report has them all")
        if self.command is None:
            return
        # Only what failed once can be marked at the end; some may pass when they are run again.
        bad = [one for name, one in self._annotated.items() if state.verdict(name) in BROKEN]
        for one in bad[: workflow_commands.MAX_ANNOTATIONS]:
            self.command(annotation(one))
        total = sum(state.counts[verdict] for verdict in BROKEN)
        if (more := total - min(len(bad), workflow_commands.MAX_ANNOTATIONS)) > 0:
            shown = f"GitHub shows {workflow_commands.MAX_ANNOTATIONS} a step"
            self.say(f"{counted(more, 'more failure')} without an annotation: {shown}")

    def _file(self, told: FileEnded, state: State, now: float) -> None:
        if self.verbosity < 0:
            return
        head, reasons = file_line(told.tally, state, now), reason_lines(told)
        not_run = told.tally.counts[Verdict.NOT_RUN]
        if self.command is None or not reasons or not_run:
            self._all([head, *(reasons if not_run else ())])
        else:
            self._group(self.command, head, reasons)

    def _failure(self, told: Ended, command: Say) -> None:
        """Keep a failure for its annotation, and show below its line what the test said."""
        if told.outcome not in BROKEN:
            return
        if len(self._annotated) < workflow_commands.MAX_ANNOTATIONS * 20:
            self._annotated[told.id] = told
        if told.detail.strip() and self._shown <= MAX_SHOWN:
            lines = [f"    {line}" for line in detail_lines(told.detail, MAX_DETAIL_LINES)]
            self._group(command, f"    its output: {one_line(told.id)}", lines)

    def _group(self, command: Say, title: str, lines: Iterable[str]) -> None:
        command(workflow_commands.command("group", title))
        self._all(lines)
        command(workflow_commands.command("endgroup"))

    def _all(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.say(line)


def annotation(told: Ended) -> str:
    """A failure as GitHub marks it beside a file."""
    where = f" on card {one_line(told.card)}" if told.card else ""
    return workflow_commands.command(
        "error",
        f"{one_line(told.message) or told.outcome.words}{where}",
        file=one_line(told.file),
        title=one_line(told.id, 250),
    )


def picture(state: State, now: float) -> RenderableType:
    """The bar, and what each card does where they are few."""
    line = Table.grid(padding=(0, 2))
    bar = ProgressBar(total=max(state.planned, 1), completed=state.settled, width=BAR_WIDTH)
    failed = problems(state)
    busy = state.at_work
    lost = f", {len(state.lost)} lost" if state.lost else ""
    bad = any(state.counts[verdict] for verdict in BROKEN)
    line.add_row(
        bar,
        Text(f"{state.settled:,}/{state.planned:,}"),
        Text(f"{state.rate(now):.1f}/s"),
        Text(", ".join(failed), style="red" if bad else ""),
        Text(f"{len(busy)} of {counted(len(state.cards), 'card')}{lost}"),
        Text(about(state.seconds_left(now)) if state.left else "done"),
    )
    if not 0 < len(busy) <= MAX_ROWS:
        return line
    rows = [
        Text(f"  {work_of(worker, now)}", style="dim", no_wrap=True, overflow="ellipsis") for worker in busy
    ]
    return Group(line, *rows)


@dataclass(slots=True, kw_only=True)
class Screen:
    """Shows a run on a terminal, from `begin` to `end`.

    Attributes:
        console: the terminal.
        verbosity: above 0 each test's end is a line.
    """

    console: Console
    verbosity: int = 0
    _live: Live | None = None
    _shown: int = 0

    def begin(self, state: State, now: float) -> None:
        """Draw for the first time."""
        self._live = Live(picture(state, now), console=self.console, auto_refresh=False, transient=True)
        self._live.start()

    def tell(self, news: News, state: State, now: float) -> None:  # noqa: ARG002  # as every view has it
        """Write above the bar what is worth a line that stays."""
        if line := news_line(news):
            self._shown += 1
            if self._shown <= MAX_SHOWN:
                self.console.print(Text(line, style=_style(news)), soft_wrap=True, highlight=False)
        elif self.verbosity > 0 and isinstance(news, Ended):
            self.console.print(Text(test_line(news)), soft_wrap=True, highlight=False)

    def tick(self, state: State, now: float) -> None:
        """Draw anew."""
        if self._live is not None:
            self._live.update(picture(state, now), refresh=True)

    def end(self, state: State, now: float) -> None:
        """Take the bar away; what was written above stays."""
        if self._live is None:
            return
        self.tick(state, now)
        self._live.stop()
        self._live = None
        if self._shown > MAX_SHOWN:
            self.console.print(f"{self._shown - MAX_SHOWN:,} more are not shown; the report has them all")


def _style(news: News) -> str:
    if not isinstance(news, Ended):
        return "magenta"
    return {Verdict.FAILED: "red", Verdict.FLAKY: "yellow"}.get(news.verdict, "magenta")
