"""Show a run: on a terminal or in a log for people, and as events for other tools."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

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
from ci.live import stream
from ci.live.news import MAX_HELD, CardLost, Ended, FileBroken, FileEnded, News, WorkerLost
from ci.live.sink import Sink
from ci.live.state import State
from ci.live.words import (
    Again,
    about,
    cards_line,
    detail_lines,
    failure_lines,
    file_line,
    late_line,
    overall,
    problems,
    reason_lines,
    seconds_left,
    test_line,
    trouble_line,
    work_of,
)
from ci.record.events import JournalEvent
from ci.record.verdict import BROKEN, Verdict

# Services end jobs that say nothing for some minutes.
SILENCE_S = 60.0
MAX_DETAIL_LINES = 30
# Lines on tests of files that were told of, and on troubles; the closing table has them all.
MAX_ASIDES = 200
Say = Callable[[str], None]
# What scrolls by faster than it is read is no use; the closing table has the others.
MAX_SHOWN = 100
MAX_ROWS = 8
BAR_WIDTH = 30
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


def view_for(
    console: Console, environ: Mapping[str, str], again: Again, *, verbosity: int = 0
) -> Lines | Screen:
    """A bar on a terminal; lines in a CI's log, in a file, and where a terminal can do no better.

    Args:
        console: for people.
        environ: the environment.
        again: the command that runs a test once more, by id.
        verbosity: above 0 each test's end is a line, below 0 only what failed is.
    """
    if console.is_terminal and not console.is_dumb_terminal and not in_log(environ):
        return Screen(console=console, again=again, verbosity=verbosity)

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    command = console.file.command if isinstance(console.file, Defused) else None
    return Lines(say=say, again=again, command=command, verbosity=verbosity)


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
        again: the command that runs a test once more, by id.
        command: takes a workflow command of GitHub; None elsewhere.
        verbosity: above 0 each test's end is a line, below 0 only what failed is.
    """

    say: Say
    again: Again
    command: Say | None = None
    verbosity: int = 0
    _said_at: float | None = None
    _asides: int = 0
    _annotated: dict[str, Ended] = field(default_factory=dict)

    def tell(self, news: News, state: State, now: float) -> None:
        """Write what one piece of news is worth."""
        match news:
            case FileEnded():
                self._file(news, state, now)
            case Ended():
                self._ended(news)
                if self.verbosity > 0:
                    self.say(test_line(news))
                if not news.late or news.attempt == 0:
                    return
                self._aside(late_line(news))
            case FileBroken() | WorkerLost() | CardLost():
                self._aside(trouble_line(news))
            case _:
                return
        self._said_at = now

    def tick(self, state: State, now: float) -> None:
        """Break a silence that has lasted too long."""
        if self._said_at is None:
            self._said_at = now
        if now - self._said_at >= SILENCE_S:
            self.say(f"still running: {overall(state, now)}; {cards_line(state, now)}")
            self._said_at = now

    def end(self, state: State, now: float) -> None:  # noqa: ARG002  # as every view has it
        """The run is over: mark the failures in GitHub, as many as it shows."""
        if self._asides > MAX_ASIDES:
            self.say(f"{self._asides - MAX_ASIDES:,} more such lines are left out; the report has them all")
        if self.command is None:
            return
        bad = [one for name, one in self._annotated.items() if state.verdict(name) in BROKEN]
        for one in bad[: workflow_commands.MAX_ANNOTATIONS]:
            self.command(annotation(one))
        total = sum(state.counts[verdict] for verdict in BROKEN)
        if (more := total - min(len(bad), workflow_commands.MAX_ANNOTATIONS)) > 0:
            shown = f"GitHub shows {workflow_commands.MAX_ANNOTATIONS} a step"
            self.say(f"{counted(more, 'more failure')} without an annotation: {shown}")

    def _ended(self, told: Ended) -> None:
        # Only what failed once can be marked at the end; some may pass when they are run again.
        if self.command is None or told.outcome not in BROKEN:
            return
        if len(self._annotated) < workflow_commands.MAX_ANNOTATIONS * 20:
            self._annotated[told.id] = told

    def _file(self, told: FileEnded, state: State, now: float) -> None:
        tally, reasons = told.tally, reason_lines(told)
        head = file_line(tally, state, now)
        if self.verbosity < 0:
            pass
        elif self.command is None:
            self._all([head, *(reasons if tally.counts[Verdict.NOT_RUN] else ())])
        elif reasons and not tally.failures and not tally.counts[Verdict.NOT_RUN]:
            self.command(workflow_commands.command("group", head))
            self._all(reasons)
            self.command(workflow_commands.command("endgroup"))
        else:
            self._all([head, *reasons])
        for one in told.failures:
            self._failure(one, state)
        if len(told.failures) == MAX_HELD and (more := tally.failures - MAX_HELD) > 0:
            self.say(f"  and {more:,} more of {one_line(tally.file)}; the report has them all")

    def _failure(self, told: Ended, state: State) -> None:
        self._all(failure_lines(told, self.again, verdict=state.verdict(told.id)))
        if self.command is None or not told.detail.strip():
            return
        self.command(workflow_commands.command("group", f"    what it said: {one_line(told.id)}"))
        self._all(f"    {line}" for line in detail_lines(told.detail, MAX_DETAIL_LINES))
        self.command(workflow_commands.command("endgroup"))

    def _aside(self, line: str) -> None:
        self._asides += 1
        if self._asides <= MAX_ASIDES:
            self.say(line)

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
        Text(about(seconds_left(state, now)) if state.left else "done"),
    )
    if not 0 < len(busy) <= MAX_ROWS:
        return line
    rows = [
        Text(f"  {work_of(stream, now)}", style="dim", no_wrap=True, overflow="ellipsis") for stream in busy
    ]
    return Group(line, *rows)


@dataclass(slots=True, kw_only=True)
class Screen:
    """Shows a run on a terminal, from `begin` to `end`.

    Attributes:
        console: the terminal.
        again: the command that runs a test once more, by id.
        verbosity: above 0 each test's end is a line.
    """

    console: Console
    again: Again
    verbosity: int = 0
    _live: Live | None = None
    _shown: int = 0

    def begin(self, state: State, now: float) -> None:
        """Draw for the first time."""
        self._live = Live(picture(state, now), console=self.console, auto_refresh=False, transient=True)
        self._live.start()

    def tell(self, news: News, state: State, now: float) -> None:  # noqa: ARG002  # as every view has it
        """Write above the bar what is worth a line that stays."""
        if self.verbosity > 0 and isinstance(news, Ended):
            self.console.print(Text(test_line(news)), soft_wrap=True, highlight=False)
        match news:
            case Ended() if news.outcome in BROKEN:
                style = "red" if news.verdict is Verdict.FAILED else "magenta"
                head, *others = failure_lines(news, self.again)
                self._write([(head.strip(), style), *((line, "") for line in others)])
            case Ended() if news.verdict is Verdict.FLAKY:
                self._write([(late_line(news), "yellow")])
            case FileBroken() | WorkerLost() | CardLost():
                self._write([(trouble_line(news), "magenta")])
            case _:
                pass

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

    def _write(self, lines: list[tuple[str, str]]) -> None:
        self._shown += 1
        if self._shown > MAX_SHOWN:
            return
        for line, style in lines:
            self.console.print(Text(line, style=style), soft_wrap=True, highlight=False)
