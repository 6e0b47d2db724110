from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.subtests import SubtestReport

from ci.runner.plugin import outcome_of


def report(when: str = "call", outcome: str = "passed", text: str = "", **more: Any) -> Any:
    flags = {name: name == outcome for name in ("passed", "failed", "skipped")}
    return SimpleNamespace(when=when, outcome=outcome, longreprtext=text, longrepr=text, **flags, **more)


SETUP, TEARDOWN = report("setup"), report("teardown")


@pytest.mark.parametrize(
    ("reports", "outcome", "message"),
    [
        ([SETUP, report(), TEARDOWN], "passed", ""),
        ([SETUP, report(outcome="failed", text="x\nE   ValueError: no\nf.py:3: ValueError"), TEARDOWN],
         "failed", "ValueError: no"),
        ([report("setup", "failed", "E   OSError: gone"), TEARDOWN], "failed", "in setup: OSError: gone"),
        ([SETUP, report(), report("teardown", "failed", "E   Boom: x")], "failed", "in teardown: Boom: x"),
        ([SETUP, report(outcome="failed", text="E   Sub: 1"), report(), TEARDOWN], "failed", "Sub: 1"),
        ([SETUP, report(outcome="skipped", wasxfail="gap"), TEARDOWN], "xfailed", "gap"),
        ([SETUP, report(wasxfail="gap"), TEARDOWN], "xpassed", "gap"),
        ([SETUP, report(outcome="failed", text="[XPASS(strict)] gap"), TEARDOWN],
         "failed", "[XPASS(strict)] gap"),
        ([SETUP, TEARDOWN], "failed", "the test ended without a result"),
        ([], "failed", "the test ended without a result"),
    ],
)  # fmt: skip
def test_the_outcome_of_a_test_is_that_of_its_worst_phase(
    reports: list[Any], outcome: str, message: str
) -> None:
    assert outcome_of(reports)[:2] == (outcome, message)


def subtest(outcome: str = "passed", text: str = "", **more: Any) -> SubtestReport:
    made = SubtestReport.__new__(SubtestReport)  # its own arguments are pytest's business
    made.__dict__.update(when="call", outcome=outcome, longrepr=text, **more)
    return made


MISSED = subtest("skipped", wasxfail="gap")


@pytest.mark.parametrize(
    ("reports", "outcome", "message"),
    [
        ([SETUP, subtest("skipped"), subtest(), report(), TEARDOWN], "passed", ""),
        ([SETUP, MISSED, report(wasxfail="gap"), TEARDOWN], "xfailed", "gap"),
        ([SETUP, subtest(wasxfail="gap"), MISSED, report(wasxfail="gap"), TEARDOWN], "xfailed", "gap"),
        ([SETUP, MISSED, subtest(wasxfail="gap"), report(wasxfail="gap"), TEARDOWN], "xfailed", "gap"),
        ([SETUP, MISSED, report(outcome="failed", text="[XPASS(strict)] gap"), TEARDOWN], "xfailed", "gap"),
        ([SETUP, subtest(wasxfail="gap"), report(wasxfail="gap"), TEARDOWN], "xpassed", "gap"),
        ([SETUP, MISSED, report(outcome="failed", text="E   Boom: x"), TEARDOWN], "failed", "Boom: x"),
        ([SETUP, subtest("failed", "E   Sub: 1"), report(), TEARDOWN], "failed", "Sub: 1"),
        ([SETUP, subtest("skipped"), report(outcome="skipped", text="s"), TEARDOWN], "skipped", "s"),
        ([SETUP, MISSED, report(), TEARDOWN], "passed", ""),
    ],
)  # fmt: skip
def test_of_subtests_failures_count_and_what_was_declared(
    reports: list[Any], outcome: str, message: str
) -> None:
    assert outcome_of(reports)[:2] == (outcome, message)


def test_a_skip_keeps_its_reason() -> None:
    skipped = report("setup", "skipped")
    skipped.longrepr = ("f.py", 3, "Skipped: needs a card")
    assert outcome_of([skipped, TEARDOWN]) == ("skipped", "needs a card", "")
