"""A job while it runs: a line that stays on a terminal, lines now and then in a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from ci.core.provider import in_log
from ci.core.text import counted
from ci.core.workflow_commands import defused
from ci.jobs.board import NEXT, Board
from ci.jobs.fate import Fate, Phase

# In a log: a line where something changed, and one where it did not.
LINE_EVERY_S = 10.0
SILENCE_S = 60.0
TICK_S = 0.5
MAX_REASONS = 3
# What scrolls by faster than it is read is no use.
MAX_TOLD = 100


def overall(board: Board) -> str:
    """The pods by phase, on one line."""
    counts = [f"{board.counts[one]:,} {one}" for one in Phase if board.counts[one]]
    replaced = sum(board.badly.values()) - sum(
        board.counts[one] for one in (Phase.FAILED, Phase.EVICTED, Phase.LOST)
    )
    replaced -= board.reasons[NEXT]
    again = f"; {counted(replaced, 'pod')} replaced" if replaced > 0 else ""
    shards = sum(board.standing.shards)
    ran = f"; {board.shards_done:,}/{shards:,} shards" if shards else ""
    return f"{counted(board.pods, 'pod')}: {', '.join(counts)}{ran}{again}"


def reasons(board: Board) -> list[str]:
    """Why pods are pending: the commonest reasons, each with how many; or what the whole job waits for."""
    if board.standing.waits and board.counts[Phase.PENDING]:
        return [f"the job {board.standing.waits}"]
    common = board.reasons.most_common(MAX_REASONS + 1)
    lines = [f"{number:,} pending: {why}" for why, number in common[:MAX_REASONS]]
    return [*lines, "and for other reasons"] if len(common) > MAX_REASONS else lines


def ended_line(fate: Fate) -> str:
    """A pod that ended badly."""
    return f"pod {fate.index} {fate.phase}: {fate.why}"


@dataclass(slots=True, kw_only=True)
class Lines:
    """Writes a job into a log.

    Attributes:
        say: takes a line.
    """

    say: Callable[[str], None]
    _last: str = ""
    _at: float | None = None
    _told: int = 0

    def tell(self, fate: Fate) -> None:
        """Write that a pod ended badly."""
        self._told += 1
        if self._told <= MAX_TOLD:
            self.say(ended_line(fate))

    def show(self, board: Board, now: float) -> None:
        """Write how it goes, where that has changed or there was silence for too long."""
        since = None if self._at is None else now - self._at
        if since is not None and since < LINE_EVERY_S:
            return
        line = overall(board)
        if line == self._last and since is not None and since < SILENCE_S:
            return
        self._last, self._at = line, now
        self.say("; ".join([line, *reasons(board)]))

    def end(self, board: Board) -> None:
        """Write how it ended."""
        if self._told > MAX_TOLD:
            self.say(f"{self._told - MAX_TOLD:,} more that ended badly are not shown")
        self.say(overall(board))


@dataclass(slots=True, kw_only=True)
class Screen:
    """Shows a job on a terminal.

    Attributes:
        console: the terminal.
    """

    console: Console
    _live: Live | None = None
    _told: int = 0
    _drawn: float = field(default=-TICK_S)

    def tell(self, fate: Fate) -> None:
        """Write above the line that a pod ended badly."""
        self._told += 1
        if self._told <= MAX_TOLD:
            style = "red" if fate.phase is Phase.FAILED else "magenta"
            self.console.print(Text(ended_line(fate), style=style), soft_wrap=True, highlight=False)

    def show(self, board: Board, now: float) -> None:
        """Draw anew, unless that was but a moment ago."""
        if now - self._drawn < TICK_S:
            return
        self._drawn = now
        if self._live is None:
            self._live = Live(picture(board), console=self.console, auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(picture(board), refresh=True)

    def end(self, board: Board) -> None:
        """Take the line away and write how it ended."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._told > MAX_TOLD:
            more = f"{self._told - MAX_TOLD:,} more that ended badly are not shown"
            self.console.print(more, highlight=False, soft_wrap=True)
        self.console.print(overall(board), highlight=False, soft_wrap=True)


def picture(board: Board) -> RenderableType:
    """What stays at the bottom of a terminal."""
    lines = [Text(overall(board)), *(Text(f"  {line}", style="dim") for line in reasons(board))]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines)


def view_for(console: Console, environ: Mapping[str, str]) -> Lines | Screen:
    """A line that stays on a terminal; lines in a CI's log, and where a terminal can do no better."""
    if console.is_terminal and not console.is_dumb_terminal and not in_log(environ):
        return Screen(console=console)

    def say(text: str) -> None:
        console.print(defused(text), markup=False, highlight=False, soft_wrap=True)

    return Lines(say=say)
