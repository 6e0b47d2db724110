"""Values of events as journals hold them: what damage or another version made of one is none. Pure."""

from __future__ import annotations

from typing import Any

from test_selection.seeds import MOST

# The year 5138, in seconds since the epoch: a time beyond it is a mistake that no calendar can show.
MAX_SECONDS = 1e11
# Nothing is tried so often; a greater number is a mistake, and would be as many tries that are missing.
MAX_TRIES = 100


def text_of(value: Any) -> str:
    """A text; empty where it is none."""
    return value if isinstance(value, str) else ""


def count_of(value: Any) -> int:
    """How manieth; what is none is the first."""
    good = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_TRIES
    return value if good else 1


def seconds_of(value: Any, otherwise: float) -> float:
    """Seconds, since the epoch or of a duration; `otherwise` where they are none."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MAX_SECONDS
    return float(value) if good else otherwise


def seed_of(value: Any) -> int | None:
    """A seed of a test or a run; None where it is none."""
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST
    return value if good else None
