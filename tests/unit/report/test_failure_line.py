"""A failure in one line."""

from __future__ import annotations

import pytest

from ci.record.verdict import Verdict
from ci.report.failure_line import short_cause, status_word

CLOSE = "AssertionError: Tensor-likes are not close!"
TENSORS = """E           AssertionError: Tensor-likes are not close!
E
E           Mismatched elements: 12 / 20 (60.0%)
E           Greatest absolute difference: 1.0 at index (3,) (up to 1e-05 allowed)
E           Greatest relative difference: inf at index (0,) (up to 1.3e-06 allowed)
"""
SCALARS = """AssertionError: Scalars are not close!

Expected 1.0 but got 2.5.
Absolute difference: 1.5 (up to 1e-05 allowed)
"""
EQUAL = "AssertionError: Tensor-likes are not equal!"
NOT_A_NUMBER = "Mismatched elements: 1 / 1 (100.0%)\nGreatest absolute difference: nan at index (0, 2)\n"
NO_PLACE = "Mismatched elements: 1 / 1 (100.0%)\nGreatest absolute difference: 2 (up to 1 allowed)"


@pytest.mark.parametrize(
    ("message", "detail", "said"),
    [
        (CLOSE, TENSORS, "12 of 20 mismatched, largest 1.0 at (3,)"),
        (f"attempt 1: failed: {CLOSE}", TENSORS, "12 of 20 mismatched, largest 1.0 at (3,)"),
        (EQUAL, NOT_A_NUMBER, "1 of 1 mismatched, largest nan at (0, 2)"),
        (CLOSE, NO_PLACE, "1 of 1 mismatched, largest 2"),
        ("AssertionError: Scalars are not close!", SCALARS, "expected 1.0, got 2.5"),
        ("Booleans are not equal!", "Expected True but got False.\n", "expected True, got False"),
        (CLOSE, "cut off", CLOSE),
        ("ValueError: x\ny", TENSORS, "ValueError: x y"),
        ("", "", "no reason given"),
    ],
)
def test_of_a_comparison_the_numbers_are_said_and_else_the_message(
    message: str, detail: str, said: str
) -> None:
    assert short_cause(message, detail) == said


@pytest.mark.parametrize(
    ("verdict", "cause", "word"),
    [
        (Verdict.FAILED, None, "FAIL"),
        (Verdict.FAILED, "nobody knows", "FAIL"),
        (Verdict.FAILED, "signal", "CRASH"),
        (Verdict.FAILED, "exit", "CRASH"),
        (Verdict.FAILED, "hang", "HANG"),
        (Verdict.FAILED, "oom", "OOM"),
        (Verdict.HARDWARE, "hardware", "HW"),
        (Verdict.INFRASTRUCTURE, None, "LOST"),
        (Verdict.FLAKY, "signal", "FLAKY"),
        (Verdict.NOT_RUN, None, "NOT RUN"),
    ],
)
def test_every_way_to_go_wrong_has_its_word(verdict: Verdict, cause: str | None, word: str) -> None:
    assert status_word(verdict, cause) == word
