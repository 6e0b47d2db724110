from __future__ import annotations

from dataclasses import replace

import pytest

from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.totals import ChangeCheck, change_check
from test_selection.selection import ChangeNote

RESULTS = [
    Result(id="new", verdict=Verdict.FAILED),
    Result(id="other", verdict=Verdict.FAILED),
    Result(id="old", verdict=Verdict.FAILED),
    Result(id="good", verdict=Verdict.PASSED),
]


NOTE = ChangeNote(
    compared="a and b",
    files=1,
    budget="none",
    named={"new": "kernel", "good": "kernel"},
    failed_before=["old"],
)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (NOTE, ChangeCheck(failed=2, caught=1)),
        (replace(NOTE, everything=("C++",)), None),
        (replace(NOTE, failed_before=None), None),
        (replace(NOTE, left_out=1), None),
        (None, None),
    ],
)
def test_a_full_run_says_what_a_choice_would_have_caught(
    found: ChangeNote | None, expected: ChangeCheck | None
) -> None:
    assert change_check(RESULTS, found) == expected
