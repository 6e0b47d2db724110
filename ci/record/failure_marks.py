"""What is known of a failure beside its verdict: that it is quarantined, and what the control came to. Pure.

A mark never changes a verdict. It says whether a failure turns the run red, and whose it is.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from ci.record.verdict import CODE_PASSED, Verdict

Whose = Literal["upstream", "device", "unclear"]
_OF_THE_MACHINE = frozenset({"hang", "oom"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """The entry that keeps a test's failure from turning the run red.

    Attributes:
        reason: why, in the entry's words.
        issue: the page where it is followed up.
        owner: who sees to it.
        expires: the last day it protects, as ISO-8601 has it.
        where: `file:line` of the entry.
    """

    reason: str
    issue: str
    owner: str
    expires: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.reason} ({self.issue}, {self.owner}, until {self.expires})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """What became of a failed test when it ran once more on the control device.

    Attributes:
        device: the control device.
        outcome: a verdict's key.
        message: one line for people.
        cause: of a crash there: signal, hang, oom or exit.
        detail: the full traceback or output there.
    """

    device: str
    outcome: str
    message: str = ""
    cause: str | None = None
    detail: str = ""

    @property
    def whose(self) -> Whose:
        """Whose the failure is.

        Upstream's, where the test fails there of itself; the device's, where it passes there. A hang or an
        out-of-memory there may be that machine's alone, and a test that was skipped there was not tried.
        """
        if self.outcome == "failed":
            return "unclear" if self.cause in _OF_THE_MACHINE else "upstream"
        return "device" if self.outcome in CODE_PASSED | {Verdict.FLAKY} else "unclear"

    def __str__(self) -> str:
        return f"{self.device}: {self.outcome.replace('_', ' ')}" + (
            f": {self.message}" if self.message else ""
        )


def mark_to_json(mark: Quarantined | Control) -> dict[str, Any]:
    """A mark as files hold it; what says nothing is left out."""
    return {key: value for key, value in asdict(mark).items() if value}
