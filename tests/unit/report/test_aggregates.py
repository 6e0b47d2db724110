"""Totals by file, the slowest, and problems that look alike."""

from __future__ import annotations

from dataclasses import replace

from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.aggregates import (
    problem_groups,
    sections,
    slowest_files,
    slowest_tests,
    totals_by_file,
)
from ci.report.reconcile import Account

from .conftest import CARD, FLAKY, LOST, OTHER, PLAIN


def test_files_with_most_problems_come_first(account: Account) -> None:
    totals = totals_by_file(account)
    assert [(one.file, one.tests, one.problems) for one in totals] == [
        ("test_b.py", 3, 3),
        ("sub/test_c.py", 2, 2),
        ("test_a.py", 6, 1),
    ]


def test_a_file_costs_its_tests_and_each_of_its_set_ups(account: Account) -> None:
    one = slowest_files(totals_by_file(account), 1)[0]
    assert (one.file, one.setup_s, one.test_s, one.seconds) == ("test_a.py", 8.0, 5.25, 13.25)


def test_the_slowest_tests_leave_out_what_did_not_run(account: Account) -> None:
    slow = slowest_tests(account.results, 99)
    assert [one.seconds for one in slow] == sorted((one.seconds for one in slow), reverse=True)
    assert PLAIN not in {one.id for one in slow}
    assert len(slowest_tests(account.results, 2)) == 2


def test_problems_that_look_alike_stand_together(account: Account) -> None:
    groups = problem_groups(account.results)
    assert [(one.verdict, one.cause, len(one.results)) for one in groups] == [
        (Verdict.FAILED, "signal", 1),
        (Verdict.FAILED, None, 1),
        (Verdict.HARDWARE, "hardware", 1),
        (Verdict.INFRASTRUCTURE, None, 1),
        (Verdict.NOT_RUN, None, 2),
    ]
    assert [one.id for one in groups[-1].results] == [PLAIN, OTHER]


def test_bigger_groups_come_before_smaller_ones() -> None:
    results = [
        Result(id=str(number), verdict=Verdict.FAILED, message="few" if number == 0 else "many")
        for number in range(3)
    ]
    assert [one.message for one in problem_groups(results)] == ["many", "few"]


def test_a_section_keeps_the_order_of_the_plan(account: Account) -> None:
    assert [one.id for one in sections(account.results)["not_run"].results] == [PLAIN, OTHER]


def test_only_good_ends_after_a_lost_try_count_as_retried(account: Account) -> None:
    again = sections([replace(one, attempts=2) for one in account.results])["retried"].results
    assert {FLAKY, CARD, LOST}.isdisjoint(one.id for one in again)
    assert len(again) == 4
    assert sections([replace(one, attempts=1) for one in account.results])["retried"].results == []
