"""What the end of pytest means."""

from __future__ import annotations

import pytest

from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_TEST_FAILED, EXIT_USAGE
from ci.package.junit import Counts
from ci.package.unit import Outcome, problem_of

GOOD, BAD = Counts(passed=2), Counts(passed=1, failed=1, failing=("a::b: no",))


def outcome(code: int | None, counts: Counts | None, problem: str = "") -> Outcome:
    return Outcome(counts=counts, pytest_code=code, problem=problem_of(code, counts, problem))


@pytest.mark.parametrize(
    ("code", "counts", "exit_code", "said"),
    [
        (0, GOOD, EXIT_OK, ""),
        (1, BAD, EXIT_TEST_FAILED, ""),
        (2, Counts(failed=1), EXIT_INCOMPLETE, "could not be collected"),
        (3, GOOD, EXIT_INCOMPLETE, "pytest itself broke"),
        (4, None, EXIT_USAGE, "does not take its arguments"),
        (5, Counts(), EXIT_INCOMPLETE, "no test was collected"),
        (0, Counts(), EXIT_INCOMPLETE, "no test ran"),
        (0, Counts(skipped=3), EXIT_INCOMPLETE, "no test ran"),
        (0, None, EXIT_INCOMPLETE, "no test ran"),
        (-11, None, EXIT_INCOMPLETE, "ended by SIGSEGV"),
        (-9, GOOD, EXIT_INCOMPLETE, "ended by SIGKILL"),
        (77, GOOD, EXIT_INCOMPLETE, "ended with code 77"),
        (0, BAD, EXIT_INCOMPLETE, "code 0, and its results hold 1 failed"),
        (1, GOOD, EXIT_INCOMPLETE, "code 1, and its results hold 0 failed"),
    ],
)
def test_an_end_that_is_neither_passed_nor_failed_is_incomplete(
    code: int, counts: Counts | None, exit_code: int, said: str
) -> None:
    ended = outcome(code, counts)
    assert ended.exit_code == exit_code
    assert said in ended.problem
    assert bool(ended.problem) == bool(said)


def test_results_that_are_missing_are_named_where_nothing_else_says_why() -> None:
    assert problem_of(0, None, unreadable="unit.xml is gone") == "unit.xml is gone"
    assert problem_of(-6, None, unreadable="unit.xml is gone") == "the tests' process was ended by SIGABRT"


def test_tests_that_were_ended_are_incomplete_and_say_why() -> None:
    ended = outcome(None, None, "took longer than 5 s: pytest")
    assert ended.exit_code == EXIT_INCOMPLETE
    assert ended.line == "took longer than 5 s: pytest"


def test_machines_get_counts_and_both_codes() -> None:
    told = outcome(1, BAD).as_json()
    assert told["counts"] == {"passed": 1, "failed": 1, "skipped": 0, "failing": ["a::b: no"]}
    assert (told["pytest_exit_code"], told["exit_code"]) == (1, EXIT_TEST_FAILED)
