"""What every linter's answer becomes: findings of one type; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Finding:
    """Something a linter wants otherwise.

    Attributes:
        path: the file, relative to the project.
        line: from 1; 0 where it is about the whole file.
        column: from 1; 0 where it is about the whole line.
        linter: its name.
        rule: what the linter calls it; may be empty.
        message: in the linter's words.
        fixable: whether `--fix` mends it.
    """

    path: str
    line: int = 0
    column: int = 0
    linter: str
    rule: str = ""
    message: str
    fixable: bool = False

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "linter": self.linter,
            "path": self.path,
            "line": self.line,
            "column": self.column,
            "rule": self.rule,
            "message": self.message,
            "fixable": self.fixable,
        }


def by_linter(findings: Iterable[Finding]) -> Mapping[str, int]:
    """How many each linter has, the most first."""
    return dict(Counter(one.linter for one in findings).most_common())
