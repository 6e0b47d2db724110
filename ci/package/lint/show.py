"""Show what linters find: lines for people, annotations for GitHub Actions, JSON for machines. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ci.core.text import counted, one_line
from ci.core.workflow_commands import MAX_ANNOTATIONS, command
from ci.package.text import harmless
from test_selection.files import document_text


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Finding:
    """Something a linter wants otherwise.

    Attributes:
        path: the file, relative to the project; empty where it is about the whole of it.
        line: from 1; 0 where it is about the whole file.
        column: from 1; 0 where it is about the whole line.
        linter: its name.
        message: in the linter's words.
    """

    path: str
    line: int = 0
    column: int = 0
    linter: str
    message: str

    def below(self, folder: str) -> Finding:
        """The same with a path from a folder, such as `packages/one/`."""
        return replace(self, path=self.path.removeprefix(folder))


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What a linter did.

    Attributes:
        version: of it; empty where nobody says.
        why_not: why it did not look; empty where it did.
    """

    version: str = ""
    why_not: str = ""

    def as_json(self) -> dict[str, str]:
        """For machines, and the record."""
        return {"not_looked": self.why_not} if self.why_not else {"version": self.version}


def by_linter(findings: Iterable[Finding]) -> Mapping[str, int]:
    """How many each linter has, the most first."""
    return dict(Counter(one.linter for one in findings).most_common())


def lines(findings: Sequence[Finding]) -> list[str]:
    """A line a finding, file by file, and one that counts them."""
    if not findings:
        return ["nothing found"]
    several = ", ".join(f"{name} {count}" for name, count in by_linter(findings).items())
    return [*map(_line, sorted(findings)), f"{counted(len(findings), 'finding')}: {several}"]


def not_looked_lines(looked: Mapping[str, Looked]) -> list[str]:
    """Which linters did not look, and why."""
    return [f"not looked at: {harmless(name)} {one.why_not}" for name, one in looked.items() if one.why_not]


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
        "findings": [asdict(one) for one in sorted(findings)],
        "linters": {name: one.as_json() for name, one in looked.items()},
    }
    return document_text("package-lint", content)


def _line(one: Finding) -> str:
    place = "".join(f":{number}" for number in (one.line, one.column) if number)
    return harmless(f"{one.path}{place}: {one.message} [{one.linter}]".removeprefix(": "))


def _annotation(one: Finding, below: Path) -> str:
    place = {"file": one_line(str(below / one.path), 4000)} if one.path else {}
    place |= {key: str(value) for key, value in (("line", one.line), ("col", one.column)) if value}
    return command("error", one_line(one.message), **place, title=one_line(one.linter))
