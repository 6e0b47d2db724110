from __future__ import annotations

from typing import Any

import pytest

from ci.record.journal import XPASS_STRICT
from ci.runner.failure_limit import FailureLimit
from ci.runner.retries import Pending
from tests.journal_rows import events_from

A, B = "a.py::T::one", "a.py::T::two"


def told(limit: FailureLimit, *rows: dict[str, Any]) -> str:
    for event in events_from(rows):
        limit.take(0, event)
    return limit.why()


def end(name: str, outcome: str = "failed", message: str = "") -> dict[str, Any]:
    return {"e": "end", "id": name, "outcome": outcome, "message": message}


@pytest.mark.parametrize(
    ("most", "retries", "rows", "failures"),
    [
        (0, 0, [end(A), end(B)], 0),
        (1, 0, [end(A)], 1),
        (2, 0, [end(A)], 0),
        (2, 0, [end(A), end(B)], 2),
        (1, 0, [end(A, "xfailed"), end(B, "hardware")], 0),
        (1, 1, [end(A)], 0),
        (1, 1, [end(A), end(A, "passed")], 0),
        (1, 1, [end(A), end(A)], 1),
        (1, 1, [end(A), {"e": "no_retry", "ids": [A], "message": "no card"}], 1),
        (1, 1, [end(A, message=f"{XPASS_STRICT}: as declared")], 1),
        (1, 0, [{"e": "crash", "id": A, "cause": "signal"}], 1),
        (2, 1, [end(A), end(B)], 0),
    ],
)
def test_a_failure_counts_once_nothing_can_mend_it(
    most: int, retries: int, rows: list[dict[str, Any]], failures: int
) -> None:
    said = told(FailureLimit(most, retries=retries, budget=9), *rows)
    many = "failure" if failures == 1 else "failures"
    assert said == (f"stopped after {failures} {many} (--max-fail)" if failures else "")


def test_quarantined_failures_do_not_count_and_a_spent_budget_leaves_no_retry() -> None:
    assert told(FailureLimit(1, retries=0, budget=9, spared=[A]), end(A)) == ""
    assert told(FailureLimit(1, retries=1, budget=1), end(A), end(B)) != ""


def test_what_failed_before_a_run_was_resumed_has_its_tries_counted() -> None:
    one = Pending(id=A, attempt=2, failed=1)
    assert told(FailureLimit(1, retries=1, budget=9, pending=[one]), end(A)) != ""
