"""The ending of a run for people at a terminal and in a log: what went wrong, once; totals; the outcome."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ci.core.text import clean, counted, one_line, span
from ci.record.identity import command_of
from ci.record.result import Result
from ci.record.verdict import Verdict, counts_in_words
from ci.report.aggregates import Section, problem_groups, sections
from ci.report.failure_line import short_cause, status_word
from ci.report.reconcile import Account
from ci.report.summary import outcome_line
from ci.report.totals import Summary

MAX_PROBLEMS = 20
# An estimate that was further off than this is worth a word.
FAR_OFF = (0.5, 1.5)
_STYLES = {0: "bold green", 1: "bold red"}
_VERDICT_STYLES = {Verdict.FAILED: "red", Verdict.FLAKY: "yellow"}
# A line and how it is drawn where there are colours.
Line = tuple[str, str]


def show_ending(console: Console, summary: Summary, account: Account, report: Path | None = None) -> None:
    """Print how the run ended.

    Args:
        console: where to.
        summary: of the run.
        account: every planned test's verdict.
        report: the page to name at the end.
    """
    for style, line in _ending(summary, account, report):
        # Long commands stay on one line, so that they can be copied.
        console.print(Text(line, style=style), soft_wrap=True, highlight=False)


def _ending(summary: Summary, account: Account, report: Path | None) -> Iterator[Line]:
    for title, errors in (
        ("could not be collected", summary.collect_errors),
        ("could not be imported on the worker", summary.file_errors),
    ):
        rows = [("red", f"{one_line(one.file)}: {one_line(one.error)}") for one in errors]
        yield from _section(f"{counted(len(errors), 'file')} {title}", rows)
    found = sections(account.results, summary.control)
    yield from _problems(summary, found)
    for name, told in (("retried", "message"), ("leaky", "leak")):
        title, results = found[name]
        rows = [("yellow", f"{one_line(one.id)}: {one_line(getattr(one, told))}") for one in results]
        yield from _section(f"{title.lower()} ({len(rows):,})", rows)
    quarantine = [] if summary.quarantine is None else summary.quarantine.lines()
    yield from _section("quarantine", [("", line) for line in quarantine])
    yield from _section("of the journals", [("yellow", one_line(note, 500)) for note in summary.notes])
    yield "", counts_line(summary) + estimate_phrase(summary, account)
    yield _STYLES.get(summary.exit_code, "bold magenta"), outcome_line(summary)
    if report is not None:
        yield "", f"report: {clean(str(report))}"


def counts_line(summary: Summary) -> str:
    """`302 planned: 301 passed, 1 xfailed; run 5.0 %, passed 5.0 % of 6,035 in scope`."""
    found = counts_in_words(summary.verdicts)
    shares = [
        f"{name} {100 * share.of_count:.1f} %"
        for name, share in summary.shares.items()
        if name != "selected" and share.of_count is not None  # that was said when it was selected
    ]
    of = f"; {', '.join(shares)} of {summary.in_scope:,} in scope" if shares else ""
    return f"{summary.planned:,} planned" + (f": {found}" if found else "") + of


def estimate_phrase(summary: Summary, account: Account) -> str:
    """By how much the plan's estimate was wrong; empty where it was not by half, or nobody can tell."""
    lines, expected = account.timelines, account.expected_s.values()
    if not lines or summary.interrupted or any(line.attempt > 1 for line in lines):
        return ""
    if summary.verdicts.get(Verdict.NOT_RUN):
        return ""
    # As many shards work at a time as there are cards.
    expected_s = max(*expected, sum(expected) / (summary.cards or len(lines)))
    took_s = max(line.ended_at for line in lines) - min(line.started_at for line in lines)
    low, high = FAR_OFF
    if not expected_s or low * expected_s <= took_s <= high * expected_s:
        return ""
    return f"; took {span(took_s)} instead of {span(expected_s)}"


def _problems(summary: Summary, found: Mapping[str, Section]) -> Iterator[Line]:
    for name in ("failed", "upstream", "hardware", "infrastructure", "flaky", "forgiven"):
        title, results = found[name]
        if name in {"upstream", "forgiven"} and results:  # else the words of the lines say it
            yield "bold", f"{title.lower()} ({len(results):,})"
        for result in results[:MAX_PROBLEMS]:
            yield _VERDICT_STYLES.get(result.verdict, "magenta"), _problem(result)
            yield "dim", f"  {command_of(result, summary.identity)}"
        yield from _more(len(results))
    groups = problem_groups(found["not_run"].results)
    word = status_word(Verdict.NOT_RUN)
    for one in groups[:MAX_PROBLEMS]:
        yield "magenta", f"{word} {len(one.results):,} x {one.message}"
    yield from _more(len(groups))


def _problem(result: Result) -> str:
    """One line: the word, the test, where it ran, and why it failed."""
    told = result.message
    if result.verdict is Verdict.FAILED:
        told = short_cause(told, result.detail)
        if told != one_line(result.message) and result.attempts > 1:
            told += f" ({result.attempts} tries)"
    where = f" on {one_line(result.card)}" if result.card else ""
    said = [one_line(told) or "-", *_marks(result)]
    return f"{status_word(result.verdict, result.cause)} {one_line(result.id)}{where}  {'; '.join(said)}"


def _marks(result: Result) -> Iterable[str]:
    if result.control is not None:
        yield f"on {one_line(str(result.control))}"
    if result.quarantine is not None:
        yield f"quarantined: {one_line(str(result.quarantine))}"


def _section(title: str, rows: Sequence[Line]) -> Iterator[Line]:
    """A title over lines, where there are any; as many as are read."""
    if rows:
        yield "bold", title
        yield from ((style, f"  {text}") for style, text in rows[:MAX_PROBLEMS])
        yield from _more(len(rows))


def _more(total: int) -> Iterator[Line]:
    if total > MAX_PROBLEMS:
        yield "", f"  {total - MAX_PROBLEMS:,} more in results.jsonl.gz"
