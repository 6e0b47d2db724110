"""A comparison as one JSON document; docs/json.md has its fields. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from ci.core.text import one_line
from ci.report.compare.changes import Change, Test
from ci.report.compare.comparison import Check, Comparison, Side
from ci.report.compare.existing import Existence
from ci.report.compare.lines import LISTED
from ci.report.compare.machines import FALSE_ALARMS
from ci.report.compare.times import LEAST_S, Finding, Times
from test_selection.files import schema_name

KIND = "compare"
_DIGITS = 6


def as_json(comparison: Comparison[Test], outcome: Check, *, limit: int = 0) -> dict[str, Any]:
    """The whole document.

    Args:
        comparison: of two runs.
        outcome: what `--check` comes to.
        limit: how many tests of a kind are named; 0 for all. The counts are of all.
    """
    changes = comparison.changes
    return {
        "schema": schema_name(KIND),
        "now": _side(comparison.now),
        "base": _side(comparison.base),
        "unlike": [one._asdict() for one in comparison.unlike],
        "check": {"exit_code": outcome.code, "said": outcome.said},
        "counts": {kind.value: number for kind, number in changes.counts.items()},
        "failing_in_base_not_planned": changes.gone,
        "tests": {kind.value: [_change(one) for one in changes[kind][: limit or None]] for kind in LISTED},
        "existence": _existence(comparison.existence, limit),
        "times": _times(comparison.times, limit),
    }


def _side(side: Side[Test]) -> dict[str, Any]:
    return {
        "run": side.run,
        "tests": len(side.rows),
        "facts": dict(side.facts),
        "under_test": side.under_test,
        "lacking": side.lacking,
    }


def _change(change: Change[Test]) -> dict[str, Any]:
    now, base = change.now, change.base
    return {
        "id": change.id,
        "was_called": None if base is None or base.id == change.id else base.id,
        "now": None if now is None else now.verdict.value,
        "base": None if base is None else base.verdict.value,
        "message": "" if now is None else one_line(now.message),
        "cause": None if now is None else now.cause,
        "quarantined": now is not None and now.quarantined,
    }


def _existence(existence: Existence, limit: int) -> dict[str, Any] | None:
    if not existence.known:
        return None
    return {
        "appeared": _some(existence.appeared, limit),
        "vanished": _some(existence.vanished, limit),
        "moved": _some([{"now": new, "base": old} for new, old in existence.moved.items()], limit),
        "untold": existence.untold,
        "uncollected_now": dict(existence.uncollected_here),
        "uncollected_base": dict(existence.uncollected_there),
    }


def _times(times: Times, limit: int) -> dict[str, Any]:
    machines = times.machines
    return {
        "tests": len(times.pairs),
        "too_few": times.too_few,
        "ratio": _round(machines.ratio),
        "by_length": [
            {
                "least_s": one.least_s,
                "below_s": None if one.below_s == float("inf") else one.below_s,
                "tests": one.tests,
                "ratio": _round(one.ratio),
            }
            for one in machines.lengths
        ],
        "cards_now": {card: _round(ratio) for card, ratio in machines.cards_now.items()},
        "cards_base": {card: _round(ratio) for card, ratio in machines.cards_base.items()},
        "setups": times.setups,
        "setup_ratio": _round(times.setup_ratio),
        "least_s": LEAST_S,
        "false_alarms": FALSE_ALARMS,
        "steady_in_history": times.steady,
        "slower": _findings(times.slower, limit),
        "faster": _findings(times.faster, limit),
        "files": _findings(times.files, limit),
        "setup_files": _findings(times.setup_files, limit),
    }


def _some(rows: Sequence[Any], limit: int, key: str = "ids") -> dict[str, Any]:
    return {"count": len(rows), key: list(rows[: limit or None])}


def _findings(found: Iterable[Finding], limit: int) -> dict[str, Any]:
    rows = [
        {key: _round(value) if isinstance(value, float) else value for key, value in asdict(one).items()}
        for one in found
    ]
    return _some(rows, limit, "found")


def _round(value: float) -> float:
    return round(value, _DIGITS)
