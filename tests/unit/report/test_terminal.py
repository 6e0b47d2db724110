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
from ci.report.summary import outcome_line
from ci.report.terminal import estimate_phrase, show_ending
from ci.report.totals import Summary

from .conftest import CARD, CRASH, FLAKY, HOSTILE_ID, LOST, Golden, ending_lines


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
        "CRASH test_a.py::TestA::test_crash[dtype=float32,op=kron] on spyre:0  SIGSEGV",
        "HW test_b.py::TestB::test_card on spyre:1  card reset",
        "LOST test_b.py::TestB::test_lost on spyre:1  pod evicted",
        "FLAKY test_a.py::TestA::test_flaky on spyre:0  attempt 1: failed: AssertionError: 1 != 2",
        "NOT RUN 2 x shard 2 has no journal",
        "11 planned: 1 passed, 2 failed, 1 flaky, 1 skipped, 1 xfailed, 1 xpassed, 1 hardware, ",
        "1 infrastructure, 2 not run; run 3.2 %, passed 0.5 % of 220 in scope",
        "exit 3: 1 in-scope file could not be collected",
        "report: runs/r/report.html",
    ):
        assert wanted in text, wanted


def test_the_ending_is_as_it_was(
    summary: Summary, account: Account, green: tuple[Account, Summary], golden: Golden
) -> None:
    golden("terminal/ending.txt", "\n".join(ending_lines(summary, account, Path("report.html"))) + "\n")
    lines = ending_lines(green[1], green[0], Path("report.html"))
    golden("terminal/ending-green.txt", "\n".join(lines) + "\n")


def test_what_was_said_of_the_selection_is_not_said_again(summary: Summary, account: Account) -> None:
    text = "\n".join(ending_lines(summary, account))
    assert not [
        word for word in ("selected", "selection order", "covered from", "reached", "slowest") if word in text
    ]


def test_each_problem_is_two_lines_of_which_one_names_it(summary: Summary, account: Account) -> None:
    lines = ending_lines(summary, account)
    for name in (CRASH, CARD, LOST, FLAKY):
        found = [line for line in lines if name in line]
        assert len(found) == 2
        assert found[1].startswith("  spyre-ci reproduce ")


@pytest.mark.parametrize(
    ("took_s", "said"),
    [
        (9.5, "; took 9.5 s instead of 20 s"),
        (10.5, ""),
        (29.5, ""),
        (31.0, "; took 31 s instead of 20 s"),
    ],
)
def test_an_estimate_that_was_wrong_by_more_than_half_is_told(
    green: tuple[Account, Summary], took_s: float, said: str
) -> None:
    account, summary = green
    (line,) = account.timelines
    made = replace(line, ended_at=line.started_at + took_s)
    account = replace(account, timelines=(made,), expected_s={0: 20.0})
    assert estimate_phrase(summary, account) == said
    for other in (replace(summary, interrupted=True), replace(summary, verdicts={Verdict.NOT_RUN: 1})):
        assert estimate_phrase(other, account) == ""


def test_shards_that_share_a_card_are_expected_one_after_the_other(green: tuple[Account, Summary]) -> None:
    account, summary = green
    (line,) = account.timelines
    lines = tuple(replace(line, shard=shard, ended_at=line.started_at + 40) for shard in range(4))
    account = replace(account, timelines=lines, expected_s=dict.fromkeys(range(4), 10.0))
    assert estimate_phrase(replace(summary, cards=1), account) == ""
    assert estimate_phrase(replace(summary, cards=4), account) == "; took 40 s instead of 10 s"


def test_an_interrupted_run_says_how_far_it_came(summary: Summary) -> None:
    ended = replace(
        summary,
        planned=1509,
        verdicts={Verdict.PASSED: 333, Verdict.NOT_RUN: 1176},
        interrupted=True,
        exit_code=130,
        reasons=("the run was interrupted", "1,176 tests not run"),
    )
    assert outcome_line(ended) == "exit 130: the run was interrupted, 333 of 1,509 done; 1,176 tests not run"


def test_files_that_did_not_collect_come_first(summary: Summary, account: Account) -> None:
    lines = ending_lines(summary, account)
    assert lines[0] == "1 file could not be collected"
    assert lines[1].startswith("  test_torch.py: ImportError: cannot import")


def test_each_failure_has_the_command_that_runs_it_again_on_one_line(
    summary: Summary, account: Account
) -> None:
    wanted = (
        "  spyre-ci reproduce --run --pytorch-src 'my tree' --device spyre "
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
    assert "ran again after a lost attempt (1)" in lines
    assert "  z: pod evicted" in lines


def test_what_a_test_left_behind_is_shown(summary: Summary, account: Account) -> None:
    left = Result(id="z", verdict=Verdict.PASSED, file="z.py", attempts=1, leak="thread 'left'")
    lines = ending_lines(summary, replace(account, results=(left,)))
    assert "left processes or files behind (1)" in lines
    assert "  z: thread 'left'" in lines
