"""The run in a log: a line a finished file, failures below it, and never silence for long."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ci.core import workflow_commands
from ci.core.text import counted, one_line
from ci.live.news import MAX_HELD, CardLost, Ended, FileBroken, FileEnded, News, WorkerLost
from ci.live.state import State
from ci.live.words import (
    Again,
    cards_line,
    detail_lines,
    failure_lines,
    file_line,
    late_line,
    overall,
    reason_lines,
    trouble_line,
)
from ci.record.verdict import BROKEN, Verdict

# Services end jobs that say nothing for some minutes.
SILENCE_S = 60.0
MAX_DETAIL_LINES = 30
# Lines on tests of files that were told of, and on troubles; the closing table has them all.
MAX_ASIDES = 200
Say = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Lines:
    """Writes a run into a log.

    Attributes:
        say: takes a line for people.
        again: the command that runs a test once more, by id.
        command: takes a workflow command of GitHub; None elsewhere.
    """

    say: Say
    again: Again
    command: Say | None = None
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
        if self.command is None:
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
