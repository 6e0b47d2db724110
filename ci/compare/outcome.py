"""What is compared: one test of a run, as whoever read the run holds it."""

from __future__ import annotations

from typing import Protocol

from ci.record.verdict import Verdict

# Verdicts that say how a test does; the others say that nobody knows.
KNOWN = frozenset({
    Verdict.PASSED, Verdict.FAILED, Verdict.FLAKY, Verdict.SKIPPED, Verdict.XFAILED, Verdict.XPASSED,
})  # fmt: skip


class Outcome(Protocol):
    """What became of one test."""

    @property
    def id(self) -> str:
        """The canonical id."""

    @property
    def verdict(self) -> Verdict:
        """One of the nine."""

    @property
    def seconds(self) -> float:
        """How long its last try with an outcome ran."""

    @property
    def card(self) -> str | None:
        """The accelerator it ran on; None where nobody says."""

    @property
    def message(self) -> str:
        """One line for people."""

    @property
    def cause(self) -> str | None:
        """Of a crash: signal, hang, oom or exit."""

    @property
    def quarantined(self) -> bool:
        """Whether an entry of the quarantine covers its failure."""
