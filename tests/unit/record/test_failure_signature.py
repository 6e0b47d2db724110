from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.record.failure_signature import LONGEST, Failure, compare, differs, last_failure, normal
from ci.record.result import Try, settle
from ci.record.verdict import Verdict
from ci.report.reader import Row

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
        (failed("no end within 600 s", "hang"), failed("nothing for 12 s, killed", "hang")),
    ],
)
def test_what_differs_each_time_makes_no_other_failure(before: str | Failure, now: str | Failure) -> None:
    first, second = (failed(one) if isinstance(one, str) else one for one in (before, now))
    assert compare(first, second) == ""


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (
            failed("AssertionError: 1 != 2"),
            failed("AssertionError: 1 != 3"),
            "both are AssertionError, with another",
        ),
        (
            failed("torch.X.MyError: a"),
            failed("ValueError: a"),
            "it was MyError in the run, and is ValueError now",
        ),
        (failed("SIGSEGV", "signal"), failed("SIGSEGV", "exit"), "it was signal in the run, and is exit now"),
        (failed("SIGSEGV: x", "signal"), failed("SIGABRT: x", "signal"), "both are signal, with another"),
        (failed("x"), Failure(verdict=Verdict.PASSED), "it was failed in the run, and is passed now"),
        (failed("x"), Failure(verdict=Verdict.HARDWARE, message="x"), "and is hardware now"),
        (failed("in setup: OSError: x"), failed("OSError: x"), "both are OSError, with another"),
    ],
)
def test_what_is_another_failure_is_said(before: Failure, now: Failure, said: str) -> None:
    assert said in compare(before, now)


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


def row(message: str = "", cause: str | None = None) -> Row:
    return Row(id="a", verdict=Verdict.FAILED, message=message, cause=cause)


@pytest.mark.parametrize(
    ("now", "base"),
    [
        ("at 0x7f12 of pid 17", "at 0x9a of pid 18"),
        ("Mismatched elements: 3 / 10 (30.0%)", "Mismatched elements: 7 / 10 (70.0%)"),
        ("Absolute difference: 1e-05", "Absolute difference: 3.5e+02"),
        ("cannot open /var/run/x/17/data.bin", "cannot open /srv/other/data.bin"),
        ("attempt 1: failed: x; attempt 2: failed: boom", "boom"),
        (
            "attempt 1: hardware: card; attempt 2: failed: boom",
            "attempt 1: failed: z; attempt 2: failed: boom",
        ),
        ("", "anything"),
        ("anything", ""),
        ("a\x1b[31m b", "a  b"),
        # The last try that failed counts, and not one that came to nothing.
        ("attempt 1: failed: a; attempt 2: hardware", "attempt 1: hardware; attempt 2: hardware"),
        pytest.param("attempt 1: failed: " * 100_000, "attempt 1: failed: " * 100_000 + "x", id="endless"),
        (row("SIGSEGV", "signal"), ""),
    ],
)
def test_a_failure_with_the_same_reason_is_the_same(now: str | Row, base: str) -> None:
    assert not differs(row(now) if isinstance(now, str) else now, row(base))


@pytest.mark.parametrize(
    ("now", "base"),
    [
        (row("ValueError: x"), row("TypeError: x")),
        (row("SIGSEGV", "signal"), row("1 != 2")),
        (row("no answer", "hang"), row("SIGSEGV", "signal")),
        (row("attempt 1: failed: a; attempt 2: failed: b"), row("a")),
    ],
)
def test_a_failure_with_another_reason_or_cause_is_another(now: Row, base: Row) -> None:
    assert differs(now, base)


def test_an_endless_message_is_read_in_part() -> None:
    assert len(normal("x1 " * 100_000, numbers=False)) <= LONGEST
