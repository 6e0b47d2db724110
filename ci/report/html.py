"""The page of a run: one file that needs nothing else, safe to open whatever tests call themselves.

Everything that comes from tests passes the template engine's escaping, and the page's own policy forbids
scripts and any request. Lists are capped, so that 35,000 tests make a page and not a flood.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jinja2 import Environment

from ci.core.templates import harmless_environment
from ci.core.text import clip, iso_utc, plain, span, tail
from ci.record.identity import MAX_COMMAND, command_of
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.digest import (
    ProblemGroup,
    failed,
    leaky,
    problem_groups,
    retried,
    slowest_files,
    slowest_tests,
    totals_by_file,
    with_verdict,
)
from ci.report.reconcile import Account
from ci.report.summary import FORGIVEN, LEAKY, RETRIED, ladder_lines, outcome_line, share_line, upstream_title
from ci.report.svg import file_bars, slowest_bars, time_chart, verdict_segments
from ci.report.totals import Summary

MAX_GROUPS = 100
MAX_TESTS = 500
MAX_TESTS_A_GROUP = 5
MAX_AGAIN = 20
MAX_DETAIL = 8 * 1024
MAX_ERRORS = 100
MAX_FILES = 40
MAX_SHARDS = 64
SLOWEST = 20


class Shown(NamedTuple):
    """A test as the page shows it; only some have room for their traceback."""

    result: Result
    command: str
    detail: str
    control: str


class Part(NamedTuple):
    """Tests that stand in a section of their own, beside the problems."""

    name: str
    title: str
    total: int
    shown: list[Shown]


class Group(NamedTuple):
    """Problems that look alike, the tests of it that are shown, and how many are not."""

    verdict: Verdict
    cause: str | None
    message: str
    total: int
    shown: list[Shown]

    @property
    def hidden(self) -> int:
        """How many tests of the group are left out."""
        return self.total - len(self.shown)


def render_html(summary: Summary, account: Account) -> str:
    """The whole page; the same account gives the same text."""
    totals = totals_by_file(account)
    problems = problem_groups(account.results)
    apart = failed(account.results)
    context: dict[str, Any] = {
        "summary": summary,
        "identity": summary.identity,
        "outcome": outcome_line(summary),
        "shares": [share_line(name, one, summary.in_scope) for name, one in summary.shares.items()],
        "ladder": ladder_lines(summary),
        "verdicts": list(Verdict),
        "verdict_key": [(verdict.value, verdict.words) for verdict in Verdict],
        "overall": verdict_segments(summary.verdicts),
        "groups": _groups(problems[:MAX_GROUPS], summary),
        "hidden_groups": max(len(problems) - MAX_GROUPS, 0),
        "quarantine": [] if summary.quarantine is None else summary.quarantine.lines()[:MAX_GROUPS],
        "parts": [
            _part("upstream", upstream_title(summary), apart.upstream, summary),
            _part("forgiven", FORGIVEN, apart.forgiven, summary),
            _part("flaky", "Flaky", with_verdict(account.results, Verdict.FLAKY), summary),
            _part("retried", RETRIED, retried(account.results), summary),
            _part("leaky", LEAKY, leaky(account.results), summary),
        ],
        "max_errors": MAX_ERRORS,
        "files": file_bars(totals[:MAX_FILES]),
        "hidden_files": max(len(totals) - MAX_FILES, 0),
        "slow_files": slowest_files(totals, SLOWEST),
        "slow_tests": slowest_bars(slowest_tests(account.results, SLOWEST)),
        "times": time_chart(account, MAX_SHARDS),
    }
    return _environment().get_template("report.html").render(context) + "\n"


def _groups(problems: Sequence[ProblemGroup], summary: Summary) -> list[Group]:
    """Each group with its first tests, while the page has room."""
    room = MAX_TESTS
    made = []
    for group in problems:
        first = group.results[: min(MAX_TESTS_A_GROUP, room)]
        room -= len(first)
        shown = [_shown(one, summary, detail=place == 0) for place, one in enumerate(first)]
        made.append(
            Group(
                verdict=group.verdict,
                cause=group.cause,
                message=group.message,
                total=len(group.results),
                shown=shown,
            )
        )
    return made


def _part(name: str, title: str, results: Sequence[Result], summary: Summary) -> Part:
    shown = [_shown(one, summary, detail=True) for one in results[:MAX_AGAIN]]
    return Part(name=name, title=title, total=len(results), shown=shown)


def _shown(result: Result, summary: Summary, *, detail: bool) -> Shown:
    return Shown(
        result=result,
        command=clip(command_of(result, summary.identity), MAX_COMMAND),
        detail=tail(plain(result.detail), MAX_DETAIL) if detail else "",
        control=tail(plain(result.control.detail), MAX_DETAIL) if detail and result.control else "",
    )


def _environment() -> Environment:
    environment = harmless_environment("ci.report")
    environment.filters |= {
        "span": span,
        "iso": iso_utc,
        "plain": plain,
        "tail": lambda text: tail(plain(text), MAX_DETAIL),
    }
    return environment
