from __future__ import annotations

from typing import Any

import pytest

from ci.runner.failure_limit import FailureLimit
from tests.journal_rows import events_from

A, B = "a.py::T::one", "a.py::T::two"


def told(limit: FailureLimit, *rows: dict[str, Any]) -> str:
    for event in events_from(rows):
        limit.take(0, event)
    return limit.why()


def end(name: str, outcome: str = "failed", message: str = "") -> dict[str, Any]:
    return {"e": "end", "id": name, "outcome": outcome, "message": message}


@pytest.mark.parametrize(
    ("most", "rows", "failures"),
    [
        (0, [end(A), end(B)], 0),
        (1, [end(A)], 1),
        (2, [end(A)], 0),
        (2, [end(A), end(A)], 0),
        (2, [end(A), end(B)], 2),
        (1, [end(A, "xfailed"), end(B, "hardware")], 0),
        (1, [{"e": "crash", "id": A, "cause": "signal"}], 1),
    ],
)
def test_a_failed_test_counts_once(most: int, rows: list[dict[str, Any]], failures: int) -> None:
    said = told(FailureLimit(most), *rows)
    many = "failure" if failures == 1 else "failures"
    assert said == (f"stopped after {failures} {many} (--max-fail)" if failures else "")


def test_quarantined_failures_do_not_count() -> None:
    assert told(FailureLimit(1, spared=[A]), end(A)) == ""
