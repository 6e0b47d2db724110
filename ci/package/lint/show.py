"""Show what linters find: lines for people, annotations for GitHub Actions, JSON for machines. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.core.text import counted, one_line
from ci.core.workflow_commands import MAX_ANNOTATIONS, command
from ci.package.text import harmless
from test_selection.files import document_text


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What a linter looked at.

    Attributes:
        files: how many.
        version: of it; empty where it did not look.
        why_not: why it did not look at what it could; empty where it did.
    """

    files: int
    version: str = ""
    why_not: str = ""

    def as_json(self) -> dict[str, object]:
        """For machines, and the record."""
        told: dict[str, object] = {"files": self.files}
        return told | ({"not_looked": self.why_not} if self.why_not else {"version": self.version})


def lines(findings: Sequence[Finding]) -> list[str]:
    """A line a finding, file by file, and one that counts them."""
    return [*map(_line, sorted(findings)), summary(findings)]


def summary(findings: Sequence[Finding]) -> str:
    """How many there are, by linter, and how many of them `--fix` mends."""
    if not findings:
        return "nothing found"
    several = ", ".join(f"{name} {count}" for name, count in by_linter(findings).items())
    fixable = sum(one.fixable for one in findings)
    mend = f"; --fix mends {fixable}" if fixable else ""
    return f"{counted(len(findings), 'finding')}: {several}{mend}"


def looked_lines(looked: Mapping[str, Looked]) -> list[str]:
    """Which linters looked, and which did not, though there was something to look at."""
    did = [
        f"{name} {one.version} ({counted(one.files, 'file')})"
        for name, one in looked.items()
        if not one.why_not
    ]
    return [
        *([f"looked: {', '.join(did)}"] if did else []),
        *(f"not looked at: {name} {one.why_not}" for name, one in looked.items() if one.why_not),
    ]


def github_commands(findings: Sequence[Finding], folder: Path, workspace: Path | None) -> list[str]:
    """Workflow commands that put findings beside the lines they are about, as many as GitHub shows.

    Args:
        findings: all of them.
        folder: the project's.
        workspace: the folder of the repository that GitHub checked out, which it names files from.
    """
    shown = sorted(findings)[:MAX_ANNOTATIONS]
    below = folder.relative_to(workspace) if workspace and folder.is_relative_to(workspace) else Path()
    told = [_annotation(one, below) for one in shown]
    if len(findings) > len(shown):
        more = len(findings) - len(shown)
        told.append(command("notice", f"{counted(more, 'more finding')} without an annotation: see the log"))
    return told


def document(findings: Sequence[Finding], looked: Mapping[str, Looked]) -> str:
    """All of it as JSON."""
    content = {
        "findings": [one.as_json() for one in sorted(findings)],
        "linters": {name: one.as_json() for name, one in looked.items()},
    }
    return document_text("package-lint", content)


def _line(one: Finding) -> str:
    place = "".join(f":{number}" for number in (one.line, one.column) if number)
    rule = f"{one.linter} {one.rule}".strip()
    return harmless(f"{one.path}{place}: {one.message} [{rule}]")


def _annotation(one: Finding, below: Path) -> str:
    given = {"file": one_line(str(below / one.path), 4000)}
    if one.line:
        given["line"] = str(one.line)
    if one.line and one.column:
        given["col"] = str(one.column)
    given["title"] = one_line(f"{one.linter} {one.rule}".strip())
    return command("error", one_line(one.message), **given)
