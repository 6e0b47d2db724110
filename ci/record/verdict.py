"""Verdicts: what becomes of a test, and the sets of them that rooms ask for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Verdict(StrEnum):
    """What became of a test; in the order of tables and files."""

    PASSED = "passed"
    FAILED = "failed"
    FLAKY = "flaky"
    SKIPPED = "skipped"
    XFAILED = "xfailed"
    XPASSED = "xpassed"
    HARDWARE = "hardware"
    INFRASTRUCTURE = "infrastructure"
    NOT_RUN = "not_run"

    @property
    def words(self) -> str:
        """The name for people."""
        return self.value.replace("_", " ")


# What says nothing of the test itself: a later try with an outcome of its own replaces it.
NO_OUTCOME = frozenset({Verdict.INFRASTRUCTURE, Verdict.NOT_RUN})
# What went wrong while it ran on a card that worked, or by the card.
FAILING = frozenset({Verdict.FAILED, Verdict.HARDWARE})
# What another try is worth.
BROKEN = FAILING | {Verdict.INFRASTRUCTURE}
# What a reader must look at, in the order of pages.
PROBLEMS = (Verdict.FAILED, Verdict.HARDWARE, Verdict.INFRASTRUCTURE, Verdict.NOT_RUN)
# What ended as it was declared to, at once; its seconds can be compared.
GOOD = frozenset({Verdict.PASSED, Verdict.XFAILED, Verdict.XPASSED})
# What ended so, by its last try.
GOOD_AT_LAST = GOOD | {Verdict.FLAKY}
# What has an outcome of the test's own.
RAN = GOOD_AT_LAST | {Verdict.FAILED}
# What the test's own code did, whatever was declared of it.
CODE_PASSED = frozenset({Verdict.PASSED, Verdict.XPASSED})
CODE_FAILED = frozenset({Verdict.FAILED, Verdict.XFAILED})


def counts_in_words(counts: Mapping[Verdict, int]) -> str:
    """`812 passed, 2 failed, 3 skipped`; empty where nothing is counted."""
    return ", ".join(f"{number:,} {one.words}" for one in Verdict if (number := counts.get(one, 0)))
