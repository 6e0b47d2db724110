"""The account for people: a line a finding, the remedy below it, and how many there are of each."""

from __future__ import annotations

from collections.abc import Sequence

from ci.core.text import counted
from ci.core.workflow_commands import defused_old
from ci.doctor.finding import Finding, Level, counts

COLOURS = {Level.OK: "green", Level.WARNING: "yellow", Level.FAULT: "bold red"}
_WIDTH = 7


def lines(findings: Sequence[Finding]) -> list[tuple[Level | None, str, str]]:
    """Level, its word and the rest of each line; remedies and totals are of no level.

    Nothing a line quotes commands a CI that reads it.
    """
    wide = max((len(one.look) for one in findings), default=0)
    found: list[tuple[Level | None, str, str]] = []
    for one in findings:
        found.append((one.level, f"{one.level:<{_WIDTH}}", f"  {one.look:<{wide}}  {defused_old(one.said)}"))
        if one.remedy:
            found.append((None, "", f"{'':{_WIDTH + 2 + wide + 2}}remedy: {defused_old(one.remedy)}"))
    found.append((None, "", totals(findings)))
    return found


def totals(findings: Sequence[Finding]) -> str:
    """Such as `9 fine, 2 warnings, 1 fault`."""
    by = counts(findings)
    return f"{by['ok']} fine, {counted(by['warning'], 'warning')}, {counted(by['fault'], 'fault')}"
