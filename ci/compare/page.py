"""The page of a comparison: one file that needs nothing else, safe to open whatever tests call themselves.

Everything that comes from runs passes the template engine's escaping, and the page's own policy forbids
scripts and any request. Lists are capped.
"""

from __future__ import annotations

from typing import Any

from ci.compare.comparison import Check, Comparison
from ci.compare.scatter import scatter
from ci.compare.verdicts import Test
from ci.compare.words import (
    LISTED,
    because,
    counted_lines,
    finding_line,
    findings,
    judged_line,
    machine_lines,
    tested_line,
    time_lines,
    unlike_lines,
)
from ci.core.templates import harmless_environment

MAX_ROWS = 200


def render_page(comparison: Comparison[Test], outcome: Check) -> str:
    """The whole page; the same comparison gives the same text."""
    existence = comparison.existence
    context: dict[str, Any] = {
        "now": comparison.now,
        "base": comparison.base,
        "outcome": outcome,
        "tested": tested_line(comparison),
        "unlike": unlike_lines(comparison),
        "counts": [(kind, number) for kind, number in comparison.changes.counts.items() if number],
        "kinds": [(kind, comparison.changes[kind]) for kind in LISTED if comparison.changes[kind]],
        "notes": [*counted_lines(comparison), *time_lines(comparison)],
        "machines": list(machine_lines(comparison)),
        "findings": findings(comparison.times),
        "judged": "" if comparison.times.too_few else judged_line(comparison),
        "existence": [
            ("Appeared", existence.appeared),
            ("Vanished", existence.vanished),
            ("Moved", tuple(f"{old} → {new}" for new, old in existence.moved.items())),
        ],
        "drawing": scatter(comparison.times),
        "most": MAX_ROWS,
    }
    environment = harmless_environment("ci.compare")
    environment.filters |= {"because": because, "finding": finding_line}
    return environment.get_template("compare.html").render(context) + "\n"
