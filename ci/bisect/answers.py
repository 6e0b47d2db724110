"""What one try of a test says of a commit; a fault of a machine says nothing. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Said(StrEnum):
    """What came of one try."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    ABSENT = "absent"
    UNCOLLECTABLE = "uncollectable"
    FAULT = "fault"


# What a verdict of the runner says of a commit. That a failure was declared makes it no less of one, and a
# flaky test, which only a retry makes, failed once.
_OF_VERDICTS = {
    "passed": Said.PASSED,
    "xpassed": Said.PASSED,
    "failed": Said.FAILED,
    "xfailed": Said.FAILED,
    "flaky": Said.FAILED,
    "skipped": Said.SKIPPED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One try.

    Attributes:
        said: what came of it.
        message: one line of it; data.
        seconds: how long the test ran.
        card: it ran on; None where it came to none.
    """

    said: Said
    message: str = ""
    seconds: float = 0.0
    card: str | None = None


def said_by(verdict: str, cause: str | None = None) -> Said:
    """What a verdict says; a card's fault, a lost worker, too little memory and what was not run say nothing.

    Args:
        verdict: of the runner.
        cause: of a crash: signal, hang, oom or exit.
    """
    if cause == "oom":  # the kernel chose it to end, perhaps for what another took
        return Said.FAULT
    return _OF_VERDICTS.get(verdict, Said.FAULT)
