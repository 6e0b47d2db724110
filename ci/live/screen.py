"""The run on a terminal: a bar that stays below, failures above it as they come."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ci.core.text import counted
from ci.live.left import seconds_left
from ci.live.news import CardLost, Ended, FileBroken, News, WorkerLost
from ci.live.state import State
from ci.live.words import Again, about, failure_lines, late_line, problems, trouble_line, work_of
from ci.record.verdict import BROKEN, Verdict

# What scrolls by faster than it is read is no use; the closing table has the others.
MAX_SHOWN = 100
MAX_ROWS = 8
BAR_WIDTH = 30


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
    """

    console: Console
    again: Again
    _live: Live | None = None
    _shown: int = 0

    def begin(self, state: State, now: float) -> None:
        """Draw for the first time."""
        self._live = Live(picture(state, now), console=self.console, auto_refresh=False, transient=True)
        self._live.start()

    def tell(self, news: News, state: State, now: float) -> None:  # noqa: ARG002  # as every view has it
        """Write above the bar what is worth a line that stays."""
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
