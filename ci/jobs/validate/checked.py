"""What a check of a cluster came to, and what all of them together mean."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_TEST_FAILED
from ci.core.findings import FAILED, UNASKED, Finding


def unasked(check: str, why: str, remedy: str) -> Finding:
    """A check whose answer could not be had: the cluster did not say."""
    return Finding(check=check, seen=why, remedy=remedy, asked=False)


def exit_code(found: Sequence[Finding]) -> int:
    """3 where something could not be asked, 1 where a check failed, else 0."""
    states = {one.state for one in found}
    if UNASKED in states:
        return EXIT_INCOMPLETE
    return EXIT_TEST_FAILED if FAILED in states else EXIT_OK


def rows(found: Sequence[Finding]) -> list[dict[str, str]]:
    """The findings for machines."""
    return [{"check": one.check, "state": one.state, "seen": one.seen, "remedy": one.remedy} for one in found]


def as_json(found: Sequence[Finding]) -> str:
    """The findings as JSON: keys sorted, so that the same findings are the same bytes."""
    return json.dumps(rows(found), sort_keys=True, indent=1)


def digest(found: Sequence[Finding]) -> str:
    """SHA-256 of the findings' JSON: what a signature is under."""
    return hashlib.sha256(as_json(found).encode()).hexdigest()
