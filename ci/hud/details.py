"""What a run's summary says beyond HUD's contract: the roll-out's shares, cards, time to signal; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Our word in summary.json, and HUD's, which has no reserved ones.
_SHARES = {"selected": "selected", "run": "ran", "passed": "passed"}


def details_of(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `RunDetails` that a `summary.json` fills beside who the run is and its verdicts.

    They are not validated here: what does not hold is named when the report is checked.

    Args:
        summary: its content.

    Raises:
        AttributeError, TypeError, KeyError, ValueError: a table of it is none.
    """
    told: dict[str, Any] = {
        "cards": summary.get("cards"),
        "seed": (summary.get("identity") or {}).get("seed"),
        "in_scope": summary.get("in_scope") or None,
        "in_scope_seconds": summary.get("in_scope_s"),
        "first_failure_seconds": summary.get("first_failure_s"),
    }
    for name, share in (summary.get("shares") or {}).items():
        if name in _SHARES:
            told[_SHARES[name]] = share["count"]
            told[f"{_SHARES[name]}_seconds"] = share.get("seconds")
    return told


def forgiven(summary: Mapping[str, Any]) -> int:
    """How many failed tests of a summary do not turn the run red."""
    return int((summary.get("quarantine") or {}).get("forgiven", 0))
