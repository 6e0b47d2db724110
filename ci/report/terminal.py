"""The ending for people at a terminal: rich tables there, plain lines where there is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ci.core.text import clean, counted, one_line, span
from ci.record.identity import command_of
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.digest import (
    failed,
    leaky,
    problem_groups,
    retried,
    slowest_files,
    totals_by_file,
    with_verdict,
)
from ci.report.reconcile import Account
from ci.report.summary import FORGIVEN, LEAKY, RETRIED, ladder_lines, outcome_line, share_line, upstream_title
from ci.report.totals import Summary

MAX_PROBLEMS = 20
SLOWEST = 5
_STYLES = {0: "bold green", 1: "bold red"}
_VERDICT_STYLES = {
    Verdict.PASSED: "green",
    Verdict.FAILED: "red",
    Verdict.FLAKY: "yellow",
    Verdict.HARDWARE: "magenta",
    Verdict.INFRASTRUCTURE: "magenta",
    Verdict.NOT_RUN: "magenta",
}


class Section(NamedTuple):
    """A title over lines; each line a style and its text."""

    title: str
    lines: Sequence[tuple[str, str]]


def show_ending(console: Console, summary: Summary, account: Account, report: Path | None = None) -> None:
    """Print how the run ended: tables on a terminal, plain lines elsewhere.

    Args:
        console: where to.
        summary: of the run.
        account: every planned test's verdict.
        report: the page to name at the end.
    """
    if console.is_terminal:
        console.print(ending(summary, account, report))
    else:
        for line in ending_lines(summary, account, report):
            # Long commands stay on one line, so that they can be copied.
            console.print(Text(line), soft_wrap=True, highlight=False)


def ending(summary: Summary, account: Account, report: Path | None = None) -> RenderableType:
    """The ending as something rich can draw; text from tests is never read as markup."""
    parts: list[RenderableType] = []
    for section in _before(summary):
        parts += [Text(section.title, style="bold"), *_texts(section)]
    parts.append(_counts_table(summary))
    for section in _after(summary, account):
        parts += [Text(section.title, style="bold"), *_texts(section)]
    parts.append(Text(outcome_line(summary), style=_STYLES.get(summary.exit_code, "bold magenta")))
    if report is not None:
        parts.append(Text(f"report: {clean(str(report))}"))
    return Group(*parts)


def ending_lines(summary: Summary, account: Account, report: Path | None = None) -> list[str]:
    """The ending as plain lines, without colours and control characters."""
    lines = []
    for section in _before(summary):
        lines += [section.title, *(f"  {text}" for _, text in section.lines)]
    width = max(len(verdict.words) for verdict in Verdict)
    lines.append(f"{'planned':<{width}} {summary.planned:>9,}")
    lines += [f"{verdict.words:<{width}} {summary.verdicts.get(verdict, 0):>9,}" for verdict in Verdict]
    for section in _after(summary, account):
        lines += [section.title, *(f"  {text}" for _, text in section.lines)]
    lines.append(outcome_line(summary))
    if report is not None:
        lines.append(f"report: {clean(str(report))}")
    return lines


def _before(summary: Summary) -> Iterable[Section]:
    """What must be seen first: files whose tests nobody could even count."""
    for title, errors in (
        ("could not be collected", summary.collect_errors),
        ("could not be imported where they were to run", summary.file_errors),
    ):
        if errors:
            shown = [("red", f"{one_line(one.file)}: {one_line(one.error)}") for one in errors[:MAX_PROBLEMS]]
            yield Section(f"{counted(len(errors), 'file')} {title}", shown + _more(len(errors)))


def _after(summary: Summary, account: Account) -> Iterable[Section]:
    yield from _problems(summary, account)
    if summary.notes:
        shown = [("yellow", one_line(note, 500)) for note in summary.notes[:MAX_PROBLEMS]]
        yield Section("of the journals", shown)
    files = slowest_files(totals_by_file(account), SLOWEST)
    if files:
        rows = [
            ("", f"{span(one.seconds):>12}  {one_line(one.file)} (set-up {span(one.setup_s)})")
            for one in files
        ]
        yield Section("slowest files", rows)
    shares = [("", share_line(name, share, summary.in_scope)) for name, share in summary.shares.items()]
    yield Section("of the tests in scope", shares + [("", line) for line in ladder_lines(summary)])


def _kinds(summary: Summary, account: Account) -> Iterable[tuple[str, Verdict, Sequence[Result]]]:
    """Every kind of test to be looked at: its title, its verdict, and the tests; most urgent first."""
    apart = failed(account.results)
    yield Verdict.FAILED.words, Verdict.FAILED, apart.ours
    yield upstream_title(summary).lower(), Verdict.FAILED, apart.upstream
    for verdict in (Verdict.HARDWARE, Verdict.INFRASTRUCTURE, Verdict.FLAKY):
        yield verdict.words, verdict, with_verdict(account.results, verdict)
    yield FORGIVEN.lower(), Verdict.FLAKY, apart.forgiven


def _problems(summary: Summary, account: Account) -> Iterable[Section]:
    for title, verdict, results in _kinds(summary, account):
        lines: list[tuple[str, str]] = []
        for result in results[:MAX_PROBLEMS]:
            where = f" on {one_line(result.card)}" if result.card else ""
            cause = f" ({one_line(result.cause)})" if result.cause else ""
            lines += [
                (_VERDICT_STYLES[verdict], f"{one_line(result.id)}{cause}{where}"),
                ("", f"  {one_line(result.message) or '-'}"),
                *(("", f"  {told}") for told in _marks(result)),
                ("dim", f"  {command_of(result, summary.identity)}"),
            ]
        if results:
            yield Section(f"{title} ({len(results):,})", lines + _more(len(results)))
    groups = problem_groups(with_verdict(account.results, Verdict.NOT_RUN))
    if groups:
        style = _VERDICT_STYLES[Verdict.NOT_RUN]
        lines = [(style, f"{len(one.results):,} x {one.message}") for one in groups[:MAX_PROBLEMS]]
        yield Section("not run", lines + _more(len(groups)))
    if again := retried(account.results):
        lines = [("yellow", f"{one_line(one.id)}: {one_line(one.message)}") for one in again[:MAX_PROBLEMS]]
        yield Section(f"{RETRIED.lower()} ({len(again):,})", lines + _more(len(again)))
    if left := leaky(account.results):
        lines = [("yellow", f"{one_line(one.id)}: {one_line(one.leak)}") for one in left[:MAX_PROBLEMS]]
        yield Section(f"{LEAKY.lower()} ({len(left):,})", lines + _more(len(left)))
    if summary.quarantine is not None:
        told = [("", line) for line in summary.quarantine.lines()]
        yield Section("quarantine", told[:MAX_PROBLEMS] + _more(len(told)))


def _marks(result: Result) -> Iterable[str]:
    if result.control is not None:
        yield f"on {one_line(str(result.control))}"
    if result.quarantine is not None:
        yield f"quarantined: {one_line(str(result.quarantine))}"


def _more(total: int) -> list[tuple[str, str]]:
    hidden = total - MAX_PROBLEMS
    return [("", f"{hidden:,} more in results.jsonl.gz")] if hidden > 0 else []


def _texts(section: Section) -> list[Text]:
    return [Text(f"  {text}", style=style) for style, text in section.lines]


def _counts_table(summary: Summary) -> Table:
    table = Table(show_header=False)
    table.add_column("verdict")
    table.add_column("tests", justify="right")
    table.add_row("planned", f"{summary.planned:,}", end_section=True)
    for verdict in Verdict:
        number = summary.verdicts.get(verdict, 0)
        table.add_row(
            verdict.words, f"{number:,}", style=_VERDICT_STYLES.get(verdict, "") if number else "dim"
        )
    return table
