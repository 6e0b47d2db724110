from __future__ import annotations

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


def note(*, everything: tuple[str, ...] = (), left_out: int = 0) -> ChangeNote:
    named = {"new": "kernel", "good": "kernel"}
    return ChangeNote(
        compared="a and b", files=1, budget="none", everything=everything, named=named, left_out=left_out
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (note(), ChangeCheck(named=2, failed=2, caught=1)),
        (note(everything=("C++",)), ChangeCheck(named=2, failed=2, caught=2)),
        (note(left_out=1), None),
        (None, None),
    ],
)
def test_a_full_run_says_what_a_choice_would_have_caught(
    found: ChangeNote | None, expected: ChangeCheck | None
) -> None:
    assert change_check(RESULTS, found, {"old"}) == expected
