"""What a check of a cluster came to, and what all of them together mean."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_TEST_FAILED

PASSED, FAILED, UNASKED = "passed", "failed", "not asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A check and what came of it.

    Attributes:
        check: its name.
        state: passed, failed, or not asked: the cluster did not say.
        seen: in one line.
        remedy: what mends it; empty where it passed.
    """

    check: str
    state: str
    seen: str
    remedy: str = ""


def judged(check: str, seen: str, *, holds: bool, remedy: str) -> Checked:
    """A check that passed where it holds; a remedy is of no use then."""
    state = PASSED if holds else FAILED
    return Checked(check=check, state=state, seen=seen, remedy="" if holds else remedy)


def unasked(check: str, why: str, remedy: str) -> Checked:
    """A check whose answer could not be had."""
    return Checked(check=check, state=UNASKED, seen=why, remedy=remedy)


def exit_code(found: Sequence[Checked]) -> int:
    """3 where something could not be asked, 1 where a check failed, else 0."""
    states = {one.state for one in found}
    if UNASKED in states:
        return EXIT_INCOMPLETE
    return EXIT_TEST_FAILED if FAILED in states else EXIT_OK


def as_json(found: Sequence[Checked]) -> str:
    """The findings as JSON: keys sorted, so that the same findings are the same bytes."""
    return json.dumps([asdict(one) for one in found], sort_keys=True, indent=1)


def digest(found: Sequence[Checked]) -> str:
    """SHA-256 of the findings' JSON: what a signature is under."""
    return hashlib.sha256(as_json(found).encode()).hexdigest()
