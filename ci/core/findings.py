"""What a check saw, and the error that names every check that failed; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ci.core.errors import EXIT_TEST_FAILED, SpyreCiError
from ci.core.text import escaped
from ci.core.workflow_commands import defused

PASSED, FAILED, UNASKED = "passed", "failed", "not checked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A check and what came of it.

    Attributes:
        check: its name.
        seen: in one line.
        remedy: what mends it; empty: the check passed.
        asked: whether there was an answer to judge.
    """

    check: str
    seen: str
    remedy: str = ""
    asked: bool = True

    @property
    def passed(self) -> bool:
        """Whether what was checked holds to it."""
        return not self.remedy

    @property
    def state(self) -> str:
        """Passed, failed or not asked."""
        return (PASSED if self.passed else FAILED) if self.asked else UNASKED

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {"check": self.check, "passed": self.passed, "seen": self.seen, "remedy": self.remedy}

    @property
    def line(self) -> str:
        """For people."""
        return escaped(f"{'ok  ' if self.passed else 'FAIL'} {self.check}: {self.seen}")


class VerificationError(SpyreCiError):
    """What was built is not what it was to be."""

    exit_code = EXIT_TEST_FAILED


def judged(check: str, seen: str, *, holds: bool, remedy: str) -> Finding:
    """A finding whose remedy counts where the check does not hold."""
    return Finding(check=check, seen=seen, remedy="" if holds else remedy)


def refuse_failed(subject: str, findings: Sequence[Finding]) -> None:
    """Raise an error that names all that failed.

    Args:
        subject: what was checked.
        findings: all checks.

    Raises:
        VerificationError: a check failed.
    """
    failed = [one for one in findings if not one.passed]
    if not failed:
        return
    lines = "".join(
        f"\n  {defused(escaped(f'{one.check}: {one.seen}'))}\n    remedy: {escaped(one.remedy)}"
        for one in failed
    )
    counted = f"{len(failed)} of {len(findings)} checks failed"
    raise VerificationError(f"{counted}{lines}", where=subject, remedy="fix each, then build it again")
