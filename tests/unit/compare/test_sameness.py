from __future__ import annotations

import pytest

from ci.compare.sameness import differs, reason_of
from ci.pipeline.told import Row
from ci.report.verdict import Verdict


def failed(message: str = "", cause: str | None = None) -> Row:
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
    ],
)
def test_a_failure_with_the_same_reason_is_the_same(now: str, base: str) -> None:
    assert not differs(failed(now), failed(base))


@pytest.mark.parametrize(
    ("now", "base"),
    [
        (failed("ValueError: x"), failed("TypeError: x")),
        (failed("SIGSEGV", "signal"), failed("1 != 2")),
        (failed("no answer", "hang"), failed("SIGSEGV", "signal")),
        (failed("attempt 1: failed: a; attempt 2: failed: b"), failed("a")),
    ],
)
def test_a_failure_with_another_reason_or_cause_is_another(now: Row, base: Row) -> None:
    assert differs(now, base)


def test_of_a_failure_that_says_nothing_nobody_says_that_it_is_another() -> None:
    assert not differs(failed("SIGSEGV", "signal"), failed())


def test_an_endless_message_is_read_in_part() -> None:
    assert len(reason_of("attempt 1: failed: " * 100_000)) < 2_000
