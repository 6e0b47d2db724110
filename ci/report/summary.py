"""The Markdown summary: `summary.md`, and the page of the run where the CI shows one.

Text from tests stands in code only, so that it is data to every Markdown reader: it makes no link, no
mention, no markup, and ends no table cell.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ci.core.text import clip, counted, one_line, plain, span, tail
from ci.record.identity import EMULATED, MAX_COMMAND, command_of
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.aggregates import problem_groups, sections, slowest_files, totals_by_file
from ci.report.reconcile import Account
from ci.report.results import RESULTS_FILE
from ci.report.totals import CollectError, Share, Summary
from test_selection.selection import note_lines, tier_note_lines

# GitHub takes a mebibyte a step and shows nothing at all of what is bigger.
MAX_BYTES = 900 * 1024
MAX_ROWS = 50
MAX_TRACEBACKS = 15
MAX_TRACEBACK = 3000
SLOWEST = 10
# Marks that a table has a column for where a test of it has one.
_MARKS = {"control": "control", "quarantine": "quarantined"}


def render_markdown(summary: Summary, account: Account) -> str:
    """The summary of a run as GitHub's Markdown; well below its limit however many tests failed."""
    parts = [
        f"## {outcome_line(summary)}",
        _about(summary),
        *_collect_errors(summary.collect_errors, "Could not be collected"),
        *_collect_errors(summary.file_errors, "Could not be imported on the worker"),
        _counts(summary),
        *_problems(summary, account),
        *_quarantine(summary),
        _slowest(account),
    ]
    return _within([part for part in parts if part], MAX_BYTES)


def outcome_line(summary: Summary) -> str:
    """How the run ended, its exit code, and why: `exit 3: 1 in-scope file could not be collected`."""
    emulated = summary.planned and summary.identity.back_end == EMULATED
    return _outcome(summary) + (" (emulated: no card was tested)" if emulated else "")


def _outcome(summary: Summary) -> str:
    if summary.reasons:
        first, *others = summary.reasons
        if summary.interrupted:
            done = summary.planned - summary.verdicts.get(Verdict.NOT_RUN, 0)
            first += f", {done:,} of {summary.planned:,} done"
        return f"exit {summary.exit_code}: {'; '.join([first, *others])}"
    if not summary.planned:
        why = "others ran this one's" if summary.identity.percent else "as 0 % was requested"
        return f"exit {summary.exit_code}: no tests, {why}"
    forgiven = 0 if summary.quarantine is None else summary.quarantine.forgiven
    failed = (
        f"nothing failed but {counted(forgiven, 'quarantined test')}," if forgiven else "nothing failed and"
    )
    return f"exit {summary.exit_code}: {counted(summary.planned, 'test')}, {failed} nothing is missing"


def share_lines(summary: Summary) -> list[str]:
    """What was selected, run and passed, each against what is in scope."""
    return [share_line(name, share, summary.in_scope) for name, share in summary.shares.items()]


def share_line(name: str, share: Share, in_scope: int) -> str:
    """A share for people: `selected 1,234 of 24,680 in scope (5.0 %; 4.8 % of the seconds)`."""
    said = f"{name} {share.count:,}"
    if share.of_count is None:
        return said
    seconds = "" if share.of_seconds is None else f"; {share.of_seconds:.1%} of the seconds"
    return f"{said} of {in_scope:,} in scope ({share.of_count:.1%}{seconds})".replace("%", " %")


def ladder_lines(summary: Summary) -> list[str]:
    """How the share came about: bucket and lock, when the cover is complete, what is reached, what to do."""
    ladder = [] if summary.ladder is None else note_lines(summary.ladder)
    return [one_line(line, 1000) for line in (*tier_note_lines(summary.bucket), *ladder)]


def code(text: str, limit: int = 300) -> str:
    """Untrusted text as Markdown code on one line, also within a table."""
    said = one_line(text, limit) or "-"
    if not set(said) & set("`|\\"):
        return f"`{said}`"
    # A code span cannot hold these within a table; a character reference is never markup.
    return "<code>" + re.sub(r"[^\w ]|_", _reference, said) + "</code>"


def fence(text: str, language: str = "text") -> str:
    """Untrusted text as a block of code that nothing in it can end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    mark = "`" * max(3, longest + 1)
    return f"{mark}{language}\n{text}\n{mark}"


def _within(parts: Sequence[str], limit: int) -> str:
    """The parts that fit, each whole: a part cut in two could leave its markup open."""
    kept: list[str] = []
    left = limit
    for part in parts:
        left -= len(part.encode()) + 2
        kept.append(part if left >= 0 else "Left out here for its size; see `report.html`.")
        if left < 0:
            break
    return "\n\n".join(kept) + "\n"


def _reference(match: re.Match[str]) -> str:
    reference = f"&#{ord(match[0])};"
    # GitHub looks for mail addresses after it has resolved references; a tag keeps the parts apart.
    return f"<span>{reference}</span>" if match[0] == "@" else reference


def _about(summary: Summary) -> str:
    identity = summary.identity
    stage = "no stage" if identity.stage is None else f"stage {identity.stage}"
    facts = [
        f"run {code(identity.run)}",
        f"{stage}, {identity.percent:g} %",
        f"device {code(identity.device)}",
        f"PyTorch {code(identity.pytorch_version)} {code(identity.pytorch_sha[:40])}",
        *(f"ran in {code(one.said())}" for one in summary.ran_in[:MAX_ROWS] if one.known),
        f"{span(summary.wall_s)} (tests {span(summary.seconds)})",
    ]
    shares = share_lines(summary)
    ladder = "".join(f"\n\n{code(line, 1000)}" for line in ladder_lines(summary))
    return " · ".join(facts) + ("\n\n" + " · ".join(shares) if shares else "") + ladder


def _collect_errors(errors: Sequence[CollectError], title: str) -> list[str]:
    if not errors:
        return []
    rows = [f"- {code(one.error)}: {code(one.file)}" for one in errors[:MAX_ROWS]]
    return [f"### {title} ({len(errors):,})", "\n".join(rows + _more(len(errors), MAX_ROWS))]


def _counts(summary: Summary) -> str:
    rows = [(verdict.words, f"{summary.verdicts.get(verdict, 0):,}") for verdict in Verdict]
    lines = ["| verdict | tests |", "|---|--:|", *(f"| {name} | {number} |" for name, number in rows)]
    lines.append(f"| **planned** | **{summary.planned:,}** |")
    notes = []
    if summary.torn:
        notes.append(f"{counted(summary.torn, 'journal line')} torn or malformed")
    notes += [code(note, 500) for note in summary.notes[:MAX_ROWS]]
    if summary.missing_shards:
        shown = ", ".join(map(str, summary.missing_shards[:MAX_ROWS]))
        notes.append(f"without a journal: shards {shown}{'…' * (len(summary.missing_shards) > MAX_ROWS)}")
    if summary.unplanned_ids:
        shown = ", ".join(code(name) for name in summary.unplanned_ids[:5])
        notes.append(f"reported and never planned: {shown}{'…' * (summary.unplanned > 5)}")  # noqa: PLR2004  # as above
    return "\n".join(lines) + "".join(f"\n\n{note}" for note in notes)


def _problems(summary: Summary, account: Account) -> list[str]:
    parts = []
    for name, (title, results) in sections(account.results, summary.control).items():
        if not results:
            continue
        shown = [replace(one, message=one.leak) for one in results] if name == "leaky" else results
        parts.append(f"### {title} ({len(results):,})")
        parts.append(_reasons(shown) if name == "not_run" else _table(shown))
        if name not in {"retried", "leaky"}:
            parts.append(_details(results, summary))
    return parts


def _quarantine(summary: Summary) -> list[str]:
    lines = summary.quarantine.lines() if summary.quarantine is not None else []
    if not lines:
        return []
    shown = [f"- {code(line, 1000)}" for line in lines[:MAX_ROWS]]
    return ["### Quarantine", "\n".join(shown + _more(len(lines), MAX_ROWS, "summary.json"))]


def _reasons(results: Sequence[Result]) -> str:
    """Tests that were not run, by the reason: a lost shard is one line, not thousands."""
    groups = problem_groups(results)
    rows = [
        f"| {len(one.results):,} | {code(one.message)} | {code(one.results[0].id, 500)} |"
        for one in groups[:MAX_ROWS]
    ]
    table = "\n".join(["| tests | reason | the first |", "|--:|---|---|", *rows])
    return "\n\n".join([table, *_more(len(groups), MAX_ROWS)])


def _table(results: Sequence[Result]) -> str:
    marks = [name for name in _MARKS if any(getattr(one, name) is not None for one in results)]
    titles = ["test", "cause", "card", "message", *(_MARKS[name] for name in marks)]
    head = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    rows = [f"| {' | '.join(_cells(one, marks))} |" for one in results[:MAX_ROWS]]
    more = _more(len(results), MAX_ROWS)
    return "\n".join(head + rows) + ("\n\n" + more[0] if more else "")


def _cells(result: Result, marks: Sequence[str]) -> list[str]:
    facts = [result.cause or "", result.card or "", result.message]
    told = [str(getattr(result, name) or "") for name in marks]
    return [code(result.id, 500), *(code(one) for one in facts + told)]


def _details(results: Sequence[Result], summary: Summary) -> str:
    """Commands and tracebacks, folded away."""
    blocks = []
    for result in results[:MAX_TRACEBACKS]:
        command = clip(command_of(result, summary.identity), MAX_COMMAND)
        blocks.append(f"{code(result.id, 500)}\n\n{fence(command, 'sh')}")
        if result.detail:
            blocks.append(fence(tail(plain(result.detail), MAX_TRACEBACK)))
        if result.upstream and result.control is not None and result.control.detail:
            blocks += [
                f"on {code(result.control.device)}:",
                fence(tail(plain(result.control.detail), MAX_TRACEBACK)),
            ]
    title = "Reproduce" + (f" (the first {MAX_TRACEBACKS})" if len(results) > MAX_TRACEBACKS else "")
    return "\n\n".join([f"<details><summary>{title}</summary>", *blocks, "</details>"])


def _slowest(account: Account) -> str:
    files = slowest_files(totals_by_file(account), SLOWEST)
    rows = [
        f"| {code(one.file)} | {span(one.seconds)} | {span(one.setup_s)} | {one.tests:,} |" for one in files
    ]
    if not rows:
        return ""
    return "\n".join(["### Slowest files", "", "| file | all | set-up | tests |", "|---|--:|--:|--:|", *rows])


def _more(total: int, shown: int, file: str = RESULTS_FILE) -> list[str]:
    return [f"{total - shown:,} more in `{file}`"] if total > shown else []
