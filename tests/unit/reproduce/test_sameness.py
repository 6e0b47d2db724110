from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.report.verdict import Try, Verdict, settle
from ci.reproduce.sameness import LONGEST, Failure, compare, last_failure, normal

FAILED = Verdict.FAILED


def failed(message: str, cause: str = "") -> Failure:
    return Failure(verdict=FAILED, cause=cause, message=message)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("AssertionError: <object at 0x7f00aa>", "AssertionError: <object at 0x7fffbb01>"),
        ("OSError: /tmp/pytest-of-me/x1/log", "OSError: /tmp/tmpab12/log2"),
        ("OSError: no file /srv/src/torch/a.py", "OSError: no file /opt/venv/torch/a.py"),
        (
            "RuntimeError: needs 12.5 GiB of memory",
            "RuntimeError: needs 1,024 MiB of memory".replace("MiB", "GiB"),
        ),
        ("ValueError: pid 12 is gone", "ValueError: pid 99 is gone"),
        ("ValueError: seed=7 fails", "ValueError: seed=8 fails"),
        ("TimeoutError: after 12.1 s", "TimeoutError: after 3 s"),
        ("AssertionError: \x1b[31mred\x1b[0m", "AssertionError: red"),
    ],
)
def test_what_differs_each_time_makes_no_other_failure(before: str, now: str) -> None:
    assert compare(failed(before), failed(now)) == ""


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (failed("AssertionError: 1 != 2"), failed("AssertionError: 1 != 3"), "both are AssertionError, but"),
        (
            failed("torch.X.MyError: a"),
            failed("ValueError: a"),
            "it was MyError there, and is ValueError here",
        ),
        (failed("SIGSEGV", "signal"), failed("SIGSEGV", "exit"), "it was signal there, and is exit here"),
        (failed("SIGSEGV: x", "signal"), failed("SIGABRT: x", "signal"), "both are signal, but"),
        (failed("x"), Failure(verdict=Verdict.PASSED), "it was failed there, and is passed here"),
        (failed("x"), Failure(verdict=Verdict.HARDWARE, message="x"), "and is hardware here"),
        (failed("in setup: OSError: x"), failed("OSError: x"), "both are OSError, but"),
    ],
)
def test_what_is_another_failure_is_said(before: Failure, now: Failure, said: str) -> None:
    assert said in compare(before, now)


def test_a_hang_is_one_however_long_somebody_waited() -> None:
    assert compare(failed("no end within 600 s", "hang"), failed("nothing for 12 s, killed", "hang")) == ""


@given(st.text())
def test_a_failure_is_the_same_as_itself(message: str) -> None:
    assert compare(failed(message), failed(message)) == ""
    assert len(normal(message)) <= LONGEST


def test_of_a_history_the_last_failure_counts() -> None:
    tries = [
        Try(outcome=Verdict.FAILED, message="ValueError: a; b"),
        Try(outcome=Verdict.FAILED, message="OSError: c", number=2),
        Try(outcome=Verdict.PASSED, number=3),
    ]
    assert last_failure(settle("x", tries, file="x.py").message) == "OSError: c"
    assert last_failure(settle("x", tries[:1], file="x.py").message) == "ValueError: a; b"
