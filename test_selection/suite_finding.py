"""What checking a suite file finds, each with its file and line."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from test_selection.suite_model import Suite

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something a suite file says that cannot be meant.

    Attributes:
        severity: an error makes the suite do other than it says; a warning may be meant.
        where: `file:line`.
        key: the key it stands under.
        value: what stands there.
        message: what is wrong with it.
        remedy: what to do about it.
    """

    severity: Severity
    where: str
    key: str
    value: str
    message: str
    remedy: str

    def as_json(self) -> dict[str, Any]:
        """The finding for machines."""
        return asdict(self)

    def __str__(self) -> str:
        said = f"{self.where}: {self.severity}: {self.key}: {self.value!r} {self.message}"
        return f"{said}\n  remedy: {self.remedy}"


def finding(  # noqa: PLR0917  # the parts of a finding, always in this order
    severity: Severity, suite: Suite, line: int, key: str, value: str, message: str, remedy: str
) -> Finding:
    """A finding at a line of a suite file."""
    return Finding(
        severity=severity, where=f"{suite.path}:{line}", key=key, value=value, message=message, remedy=remedy
    )


def nothing_mandatory(suite: Suite) -> Finding:
    """That the suite cannot fail."""
    return finding(
        "warning", suite, suite.files[0].line, "files", suite.files[0].path,
        "and the rest of the suite hold no test that has to pass, so the suite cannot fail",
        "promote what passes (`spyre-ci suite promote`), or drop the suite",
    )  # fmt: skip
