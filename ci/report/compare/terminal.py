"""A comparison for people at a terminal; rich tables there, plain lines where there is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ci.core.text import one_line
from ci.report.compare.changes import Change, Kind, Test
from ci.report.compare.comparison import Comparison
from ci.report.compare.lines import (
    LISTED,
    because,
    came_and_went,
    counted_lines,
    finding_line,
    findings,
    judged_line,
    machine_lines,
    nothing_line,
    tested_line,
    time_lines,
    unlike_lines,
)

_RED = {Kind.NEW_FAILURES, Kind.NEW_TESTS_FAILING, Kind.FAILING_UNKNOWN, Kind.FAILING_DIFFERENTLY}
_YELLOW = {Kind.NEWLY_FLAKY, Kind.FLAKY_UNKNOWN, Kind.NEWLY_SKIPPED, Kind.QUARANTINED}
_GREEN = {Kind.FIXED, Kind.NO_LONGER_FLAKY}
_MESSAGE, _LONGEST = 160, 2_000


def show(console: Console, comparison: Comparison[Test], *, limit: int) -> None:
    """Print a comparison; text from tests is never read as markup.

    Args:
        console: where to.
        comparison: of two runs.
        limit: how many tests of a kind are named; 0 for all.
    """
    for line in _head(comparison):
        _say(console, line, "bold yellow" if line.startswith("not alike") else "")
    _counts(console, comparison)
    for kind in LISTED:
        if found := comparison.changes[kind]:
            _say(console, f"{len(found):,} {kind.words}", f"bold {_style(kind)}")
            _listed(console, [_test_line(one) for one in found], limit)
    for words, ids in came_and_went(comparison):
        _say(console, words, "bold")
        _listed(console, [one_line(one) for one in ids], limit)
    for words, rows in findings(comparison.times):
        _say(console, words, "bold")
        _listed(console, [f"{one_line(one.name)}: {finding_line(one)}" for one in rows], limit)
    for line in (*counted_lines(comparison), *machine_lines(comparison), *time_lines(comparison)):
        _say(console, line)
    if comparison.times.found:
        _say(console, judged_line(comparison))
    if comparison.nothing:
        _say(console, nothing_line(comparison), "green")


def _head(comparison: Comparison[Test]) -> Iterator[str]:
    now, base = comparison.now, comparison.base
    yield f"{now.run} against {base.run}"
    for side, where in ((now, "here"), (base, "there")):
        if side.lacking:
            yield f"incomplete {where}: {side.lacking}"
    if tested := tested_line(comparison):
        yield tested
    yield from (f"not alike: {line}" for line in unlike_lines(comparison))


def _counts(console: Console, comparison: Comparison[Test]) -> None:
    """The tests of both runs by kind; the rows add up to all of them."""
    counts = {kind: number for kind, number in comparison.changes.counts.items() if number}
    if not console.is_terminal:
        return
    table = Table("", "tests", show_edge=False)
    table.columns[1].justify = "right"
    for kind, number in counts.items():
        table.add_row(Text(kind.words, style=_style(kind)), f"{number:,}")
    table.add_row(Text("tests of either run", style="bold"), f"{sum(counts.values()):,}")
    console.print(table)


def _style(kind: Kind) -> str:
    styles = ((_RED, "red"), (_YELLOW, "yellow"), (_GREEN, "green"))
    return next((style for kinds, style in styles if kind in kinds), "")


def _test_line(change: Change[Test]) -> str:
    now = change.now
    said = one_line(change.id)
    if now is None:
        return said
    about = [because(change), now.cause or "", one_line(now.message, _MESSAGE)]
    return f"{said}: {'; '.join(one for one in about if one)}"


def _listed(console: Console, lines: Sequence[str], limit: int) -> None:
    shown = lines[: limit or None]
    for line in shown:
        _say(console, f"  {line}")
    if left := len(lines) - len(shown):
        _say(console, f"  and {left:,} more; --limit 0 shows all")


def _say(console: Console, line: str, style: str = "") -> None:
    # Long ids stay on one line, so that they can be copied.
    indent = "  " if line.startswith("  ") else ""
    text = Text(indent + one_line(line, _LONGEST), style=style)
    console.print(text, soft_wrap=True, highlight=False)
