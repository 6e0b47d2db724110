"""Render the page of a run: one file that needs nothing else, safe to open whatever tests call themselves.

Everything that comes from tests passes the template engine's escaping, and the page's own policy forbids
scripts and any request. Lists are capped, so that 35,000 tests make a page and not a flood. Where bars stand
is geometry here, in thousandths of the width, without any text: escaping stays in the template.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ci.core.svg import Axis, Segment
from ci.core.templates import harmless_environment
from ci.core.text import clip, counted, iso_utc, plain, span, tail
from ci.record.identity import MAX_COMMAND, command_of
from ci.record.result import Result
from ci.record.timeline import GroupTiming, ShardTimeline
from ci.record.verdict import PROBLEMS, Verdict
from ci.report.aggregates import (
    FileTotals,
    ProblemGroup,
    problem_groups,
    sections,
    slowest_files,
    slowest_tests,
    totals_by_file,
)
from ci.report.reconcile import Account
from ci.report.summary import ladder_lines, outcome_line, share_lines
from ci.report.totals import Summary

WIDTH = 1000.0
# A single failure among thousands must be seen.
LEAST = 8.0
MAX_SEGMENTS = 4000
TICKS = 4
MAX_GROUPS = 100
MAX_TESTS = 500
MAX_TESTS_A_GROUP = 5
MAX_AGAIN = 20
MAX_DETAIL = 8 * 1024
MAX_ERRORS = 100
MAX_FILES = 40
MAX_SHARDS = 64
SLOWEST = 20
# Sections of their own, after the problems.
BESIDE = ("upstream", "forgiven", "flaky", "retried", "leaky")


def render_html(summary: Summary, account: Account) -> str:
    """The whole page; the same account gives the same text."""
    totals = totals_by_file(account)
    problems = problem_groups(account.results)
    found = sections(account.results, summary.control)
    context = {
        "summary": summary,
        "identity": summary.identity,
        "outcome": outcome_line(summary),
        "shares": share_lines(summary),
        "ladder": ladder_lines(summary),
        "verdicts": list(Verdict),
        "verdict_key": [(verdict.value, verdict.words) for verdict in Verdict],
        "overall": verdict_segments(summary.verdicts),
        "groups": list(_groups(problems[:MAX_GROUPS])),
        "hidden_groups": max(len(problems) - MAX_GROUPS, 0),
        "quarantine": [] if summary.quarantine is None else summary.quarantine.lines()[:MAX_GROUPS],
        "parts": [(name, found[name]) for name in BESIDE],
        "max_again": MAX_AGAIN,
        "max_errors": MAX_ERRORS,
        "files": file_bars(totals[:MAX_FILES]),
        "hidden_files": max(len(totals) - MAX_FILES, 0),
        "slow_files": slowest_files(totals, SLOWEST),
        "slow_tests": slowest_bars(slowest_tests(account.results, SLOWEST)),
        "times": time_chart(account, MAX_SHARDS),
    }
    environment = harmless_environment("ci.report")
    environment.filters |= {
        "span": span,
        "iso": iso_utc,
        "tail": lambda text: tail(plain(text), MAX_DETAIL),
        "command": lambda one: clip(command_of(one, summary.identity), MAX_COMMAND),
    }
    return environment.get_template("report.html").render(context) + "\n"


def _groups(problems: Iterable[ProblemGroup]) -> Iterator[tuple[ProblemGroup, Sequence[Result]]]:
    """Each group with its first tests, while the page has room."""
    room = MAX_TESTS
    for group in problems:
        first = group.results[: min(MAX_TESTS_A_GROUP, room)]
        room -= len(first)
        yield group, first


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A row of a chart; `mark` is where something was expected."""

    label: str
    note: str
    segments: tuple[Segment, ...]
    mark: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeChart:
    """Shards over one time axis; `hidden` shards are left out."""

    bars: tuple[Bar, ...]
    ticks: tuple[str, ...]
    hidden: int


def verdict_segments(counts: Mapping[Verdict, int]) -> tuple[Segment, ...]:
    """The verdicts of a file or a run as one full bar; problems are never too thin to see."""
    present = [verdict for verdict in Verdict if counts.get(verdict, 0)]
    total = sum(counts[verdict] for verdict in present)
    widths = {verdict: WIDTH * counts[verdict] / total for verdict in present}
    for verdict in present:
        widest = max(present, key=lambda one: widths[one])
        lacking = LEAST - widths[verdict]
        if verdict in PROBLEMS and 0 < lacking < widths[widest] - LEAST:
            widths[verdict] += lacking
            widths[widest] -= lacking
    starts = itertools.accumulate(widths.values(), initial=0.0)
    return tuple(
        Segment(
            x=round(x, 2),
            width=round(width, 2),
            kind=verdict.value,
            title=f"{counts[verdict]:,} {verdict.words}",
        )
        for x, (verdict, width) in zip(starts, widths.items(), strict=False)
    )


def file_bars(totals: Iterable[FileTotals]) -> list[Bar]:
    """The verdicts of each file."""
    return [
        Bar(
            label=one.file,
            note=counted(one.tests, "test")
            + (f", {counted(one.problems, 'problem')}" if one.problems else ""),
            segments=verdict_segments(one.counts),
        )
        for one in totals
    ]


def slowest_bars(results: Sequence[Result]) -> list[Bar]:
    """How long each test ran, against the longest."""
    longest = max((result.seconds for result in results), default=0.0) or 1.0
    scale = Axis(low=0.0, high=longest, start=0.0, end=WIDTH)
    return [
        Bar(
            label=one.id,
            note=span(one.seconds),
            segments=(
                _segment(scale, 0.0, one.seconds, one.verdict, f"{span(one.seconds)}, {one.verdict.words}"),
            ),
        )
        for one in results
    ]


def time_chart(account: Account, limit: int) -> TimeChart | None:
    """What each attempt at a shard did when; None where no shard left a journal.

    Args:
        account: with its time lines.
        limit: how many are shown; the ones that ended last are kept.
    """
    if not account.timelines:
        return None
    latest = sorted(account.timelines, key=lambda line: (-line.ended_at, line.shard, line.attempt))[:limit]
    lines = sorted(latest, key=lambda line: (line.shard, line.attempt))
    start = min(line.started_at for line in account.timelines)
    expected = {
        line.shard: line.started_at + account.expected_s[line.shard]
        for line in lines
        if line.attempt == 1 and line.shard in account.expected_s
    }
    end = max(*(line.ended_at for line in lines), *expected.values(), start + 0.001)
    scale = Axis(low=start, high=end, start=0.0, end=WIDTH)
    room = max(MAX_SEGMENTS // len(lines), 4)
    return TimeChart(
        bars=tuple(
            _time_bar(line, expected.get(line.shard) if line.attempt == 1 else None, scale, room)
            for line in lines
        ),
        ticks=tuple(span((end - start) * number / TICKS) for number in range(TICKS + 1)),
        hidden=len(account.timelines) - len(lines),
    )


def _segment(scale: Axis, begin: float, end: float, kind: str, title: str) -> Segment:
    x = scale.at(begin)
    return Segment(x=x, width=round(max(scale.at(end) - x, 0.0), 2), kind=kind, title=title)


def _time_bar(line: ShardTimeline, expected: float | None, scale: Axis, room: int) -> Bar:
    took = line.ended_at - line.started_at
    note = span(took)
    if expected is not None:
        note += f" of {span(expected - line.started_at)} expected"
    if line.status != "done":
        note += f", {line.status or 'no end recorded'}"
    attempt = f", attempt {line.attempt}" if line.attempt > 1 else ""
    return Bar(
        label=f"shard {line.shard}{attempt}" + (f" on {line.card}" if line.card else ""),
        note=note,
        segments=tuple(_group_segments(line.groups, scale, room)),
        mark=None if expected is None else scale.at(expected),
    )


def _group_segments(groups: Sequence[GroupTiming], scale: Axis, room: int) -> Iterator[Segment]:
    shown = groups[: room // 2]
    for group in shown:
        took = group.ended_at - group.started_at
        # A group that never became ready spent all its time on setting up.
        setup_s = took if group.setup_s is None else min(group.setup_s, took)
        ready = group.started_at + setup_s
        title = f"{group.file}: {span(took)}, of it {span(setup_s)} set-up"
        yield _segment(scale, group.started_at, ready, "setup", title)
        yield _segment(scale, ready, group.ended_at, "tests", title)
    if rest := groups[len(shown) :]:
        title = counted(len(rest), "more file")
        yield _segment(scale, rest[0].started_at, rest[-1].ended_at, "tests", title)
