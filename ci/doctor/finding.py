"""What a check found: ok, a warning or a fault, each but the first with its remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ci.core.addresses import safe_line, without_credentials
from ci.core.errors import EXIT_OK, EXIT_USAGE, SpyreCiError
from ci.core.text import counted, plain
from ci.core.workflow_commands import defused_old

MESSAGE_LIMIT = 600
_WIDTH = 7


class Level(StrEnum):
    """What a finding means for a run: nothing, something worth knowing, or that it cannot go well."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the result.

    Attributes:
        level: what it means for a run.
        message: what is there, on one line, without a secret in an address.
        remedy: a command or an instruction; empty where the level is ok.
        check: whose it is, such as `torch`; filled in by who runs the checks.
    """

    level: Level
    message: str
    remedy: str = ""
    check: str = ""

    def __post_init__(self) -> None:
        # Here, so that no check can forget it: messages quote indexes, servers and names of files.
        object.__setattr__(self, "message", safe_line(self.message, MESSAGE_LIMIT))
        # Neither cut nor its blanks collapsed: it is pasted.
        object.__setattr__(self, "remedy", plain(without_credentials(self.remedy)).replace("\n", " ").strip())
        if (self.level is Level.OK) == bool(self.remedy):
            raise ValueError(f"only a warning or a fault has a remedy, and it needs one: {self.message}")


def ok(message: str) -> Finding:
    """What is as it should be, or is not used."""
    return Finding(Level.OK, message)


def warning(message: str, remedy: str) -> Finding:
    """What a run can do without, or fails for only later."""
    return Finding(Level.WARNING, message, remedy)


def fault(message: str, remedy: str) -> Finding:
    """What stops a run, or what the settings ask for and is not available."""
    return Finding(Level.FAULT, message, remedy)


def of_error(error: SpyreCiError) -> Finding:
    """An error of ours as a fault, with its own words and remedy."""
    return fault(error.placed, error.remedy or "fix what it names")


def exit_code(findings: Sequence[Finding]) -> int:
    """2 where there is a fault, else 0."""
    return EXIT_USAGE if any(one.level is Level.FAULT for one in findings) else EXIT_OK


def document(findings: Sequence[Finding]) -> dict[str, Any]:
    """All findings as JSON values."""
    counts = Counter(one.level for one in findings)
    return {
        "findings": [
            {"check": one.check, "level": str(one.level), "message": one.message, "remedy": one.remedy}
            for one in findings
        ],
        "counts": {str(level): counts[level] for level in Level},
        "exit_code": exit_code(findings),
    }


def lines(findings: Sequence[Finding]) -> list[tuple[Level | None, str]]:
    """Each line with the level that colours its first word; None: no colour.

    Nothing a line quotes commands a CI that reads it.
    """
    wide = max((len(one.check) for one in findings), default=0)
    found: list[tuple[Level | None, str]] = []
    for one in findings:
        found.append((one.level, f"{one.level:<{_WIDTH}}  {one.check:<{wide}}  {defused_old(one.message)}"))
        if one.remedy:
            found.append((None, f"{'':{_WIDTH + wide + 4}}remedy: {defused_old(one.remedy)}"))
    by = document(findings)["counts"]
    totals = f"{by['ok']} ok, {counted(by['warning'], 'warning')}, {counted(by['fault'], 'fault')}"
    return [*found, (None, totals)]
