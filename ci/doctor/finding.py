"""What a look found: well, worth knowing, or in a run's way, with what mends it; and the account of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ci.core.addresses import safe_line, without_credentials
from ci.core.errors import EXIT_OK, EXIT_USAGE, SpyreCiError
from ci.core.text import counted, plain
from ci.core.workflow_commands import defused_old

SCHEMA = "spyre-ci/doctor/1"
SAID_LIMIT = 600
_WIDTH = 7


class Level(StrEnum):
    """How a finding stands to a run: fine, worth knowing, in its way."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the account.

    Attributes:
        look: whose it is, such as `torch`.
        level: how it stands to a run.
        said: what is there, on one line, without a secret in an address.
        remedy: what mends it, as it can be typed or done; empty where it is fine.
    """

    look: str
    level: Level
    said: str
    remedy: str = ""

    def __post_init__(self) -> None:
        # Here, so that nobody can forget it: what is found quotes indexes, servers and names of files.
        object.__setattr__(self, "said", safe_line(self.said, SAID_LIMIT))
        # Neither cut nor its blanks counted: it is pasted.
        object.__setattr__(self, "remedy", plain(without_credentials(self.remedy)).replace("\n", " ").strip())
        if (self.level is Level.OK) == bool(self.remedy):
            raise ValueError(f"{self.look}: what is fine has no remedy, and all else has one")


def ok(look: str, said: str) -> Finding:
    """What is as it should be, or is not used."""
    return Finding(look=look, level=Level.OK, said=said)


def warning(look: str, said: str, remedy: str) -> Finding:
    """What a run can do without, or comes to grief by only later."""
    return Finding(look=look, level=Level.WARNING, said=said, remedy=remedy)


def fault(look: str, said: str, remedy: str) -> Finding:
    """What stops a run, or what the settings ask for and is not to be had."""
    return Finding(look=look, level=Level.FAULT, said=said, remedy=remedy)


def of_error(look: str, level: Level, error: SpyreCiError) -> Finding:
    """An error of ours as a finding, with its own words and remedy."""
    where = f"{error.where}: " if error.where else ""
    return Finding(
        look=look,
        level=level,
        said=f"{where}{error.what}",
        remedy=error.remedy or "see what it says, and mend that",
    )


def counts(findings: Sequence[Finding]) -> dict[str, int]:
    """How many findings there are of each level, of those without any as well."""
    counted = Counter(one.level for one in findings)
    return {str(level): counted[level] for level in Level}


def exit_code(findings: Sequence[Finding]) -> int:
    """2 where anything is in a run's way, else 0."""
    return EXIT_USAGE if any(one.level is Level.FAULT for one in findings) else EXIT_OK


def document(findings: Sequence[Finding], *, seconds: Mapping[str, float]) -> dict[str, Any]:
    """All findings as JSON values; docs/schemas/doctor.json has its shape.

    Args:
        findings: in the order they are shown.
        seconds: each look took, by its name.
    """
    rows = [
        {"look": one.look, "level": str(one.level), "said": one.said, "remedy": one.remedy}
        for one in findings
    ]
    return {
        "schema": SCHEMA,
        "findings": rows,
        "counts": counts(findings),
        "seconds": {name: round(took, 3) for name, took in seconds.items()},
        "exit_code": exit_code(findings),
    }


COLOURS = {Level.OK: "green", Level.WARNING: "yellow", Level.FAULT: "bold red"}


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
