"""The ending at a terminal and without one."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ci.record.identity import EMULATED
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.reconcile import Account
from ci.report.terminal import ending_lines, show_ending
from ci.report.totals import Summary

from .conftest import HOSTILE_ID


def shown(summary: Summary, account: Account, *, terminal: bool) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream, force_terminal=terminal, width=100, color_system="standard" if terminal else None
    )
    show_ending(console, summary, account, Path("runs/r/report.html"))
    return stream.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_both_endings_tell_the_same(summary: Summary, account: Account, *, terminal: bool) -> None:
    text = shown(summary, account, terminal=terminal)
    for wanted in (
        "planned",
        *(verdict.words for verdict in Verdict),
        "SIGSEGV",
        "(signal) on spyre:0",
        "2 x shard 2 has no journal",
        "slowest files",
        "selected 11 of 220 in scope (5.0 %; 5.0 % of the seconds)",
        "ladder: ladder.lock.gz, by count, 219 places; 2 came since, 1 went",
        "complete from: files 1.37 %, ops 2.28 %, templates 3.20 %, op-dtype pairs 14.00 %",
        "70 of 310 op-dtype pairs",
        "relock `now` <b>",
        "exit 3: 1 in-scope file could not be collected",
        "report: runs/r/report.html",
    ):
        assert wanted in text, wanted


def test_files_that_did_not_collect_come_first(summary: Summary, account: Account) -> None:
    lines = ending_lines(summary, account)
    assert lines[0] == "1 file could not be collected"
    assert lines[1].startswith("  test_torch.py: ImportError: cannot import")


def test_each_failure_has_the_command_that_runs_it_again_on_one_line(
    summary: Summary, account: Account
) -> None:
    wanted = (
        "    spyre-ci reproduce --run --pytorch-src 'my tree' --device spyre "
        "-- 'test_a.py::TestA::test_crash[dtype=float32,op=kron]' github-7.1"
    )
    assert wanted in ending_lines(summary, account)
    assert wanted in shown(summary, account, terminal=False).splitlines()


@pytest.mark.parametrize("terminal", [True, False])
def test_hostile_text_reaches_no_terminal(summary: Summary, account: Account, *, terminal: bool) -> None:
    markup = Result(id=f"[link=http://x]{HOSTILE_ID}[/]", verdict=Verdict.FAILED, file="[red]x")
    text = shown(summary, replace(account, results=(markup, *account.results)), terminal=terminal)
    assert "[link=http://x]" in text
    for character in ("\x00", "\udc80", "\u202e", "\x1b[31mred"):
        assert character not in text


def test_a_long_list_is_cut_and_says_where_the_rest_is(summary: Summary, account: Account) -> None:
    many = tuple(Result(id=str(number), verdict=Verdict.FAILED, file="a.py") for number in range(1025))
    assert "  1,005 more in results.jsonl.gz" in ending_lines(summary, replace(account, results=many))


def test_a_green_run_ends_with_its_outcome(green: tuple[Account, Summary]) -> None:
    assert ending_lines(green[1], green[0])[-1] == "exit 0: 2 tests, nothing failed and nothing is missing"
    identity = replace(green[1].identity, back_end=EMULATED)
    assert ending_lines(replace(green[1], identity=identity), green[0])[-1] == (
        "exit 0: 2 tests, nothing failed and nothing is missing (emulated: no card was tested)"
    )


def test_a_test_that_passed_only_after_a_lost_try_is_shown(summary: Summary, account: Account) -> None:
    again = Result(id="z", verdict=Verdict.PASSED, file="z.py", attempts=2, message="pod evicted")
    lines = ending_lines(summary, replace(account, results=(again,)))
    assert "ran again after a lost try (1)" in lines
    assert "  z: pod evicted" in lines


def test_what_a_test_left_behind_is_shown(summary: Summary, account: Account) -> None:
    left = Result(id="z", verdict=Verdict.PASSED, file="z.py", attempts=1, leak="thread 'left'")
    lines = ending_lines(summary, replace(account, results=(left,)))
    assert "left something behind (1)" in lines
    assert "  z: thread 'left'" in lines
