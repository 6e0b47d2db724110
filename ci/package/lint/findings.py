"""What linters find: read off what they say; shown to people, GitHub Actions and machines. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ci.core.text import counted, one_line
from ci.core.workflow_commands import MAX_ANNOTATIONS, command
from ci.package.text import harmless
from test_selection.files import document_text

# As compilers, ruff, codespell, mypy, shellcheck and actionlint name places; in GitHub's form after `::`.
_PLACE = re.compile(
    r"(?:::\w+ [^\n]*?::)?(?P<path>[^:\n]+):(?P<line>\d+)(?::(?P<column>\d+))?(?::\s?| )(?P<message>.*)"
)
# As rustc does, ruff and zizmor, below the message; check-jsonschema.
_ARROW = re.compile(r"\s*--> (?P<path>[^:\n]+):(?P<line>\d+):(?P<column>\d+)")
_WOULD = re.compile(r"(?P<message>[Ww]ould reformat):? (?P<path>.+)")
_SCHEMA = re.compile(r"\s*(?P<path>[^:\n]+)::(?P<message>\$.*)")
_HUNK = re.compile(r"@@ -(\d+)")
# By linter, the `version` of what looked, or why it did `not_looked`.
Looked = Mapping[str, Mapping[str, str]]


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


def findings_of(said: str, hook: str, tree: str = "") -> Iterator[Finding]:
    """Read the places that a hook named; pure.

    Args:
        said: its output.
        hook: its name.
        tree: the folder that it may name before a file.
    """
    before = ""
    for text in said.splitlines():
        found = _ARROW.match(text) or _PLACE.fullmatch(text)
        found = found or _SCHEMA.fullmatch(text) or _WOULD.fullmatch(text)
        if found is not None:
            place = found.groupdict()
            yield Finding(
                path=place["path"].strip().removeprefix(f"{tree}/").removeprefix("./"),
                line=int(place.get("line") or 0),
                column=int(place.get("column") or 0),
                linter=hook,
                message=place.get("message", before).strip() or hook,
            )
        before = text


def hunks_of(patch: str) -> dict[str, list[int]]:
    """The lines of each file at which a patch of `git diff` changes it; pure."""
    found: dict[str, list[int]] = {}
    name = ""
    for line in patch.splitlines():
        if line.startswith("+++ b/"):
            name = line.removeprefix("+++ b/").rstrip("\t")
        elif hunk := _HUNK.match(line):
            found.setdefault(name, []).append(int(hunk[1]))
    return found


def by_linter(findings: Iterable[Finding]) -> Mapping[str, int]:
    """How many each linter has, the most first."""
    return dict(Counter(one.linter for one in findings).most_common())


def lines(findings: Sequence[Finding]) -> list[str]:
    """A line a finding, file by file, and one that counts them."""
    if not findings:
        return ["nothing found"]
    several = ", ".join(f"{name} {count}" for name, count in by_linter(findings).items())
    return [*map(_line, sorted(findings)), f"{counted(len(findings), 'finding')}: {several}"]


def not_looked_lines(looked: Looked) -> list[str]:
    """Which linters did not look, and why."""
    return [
        f"skipped: {harmless(name)} {one['not_looked']}"
        for name, one in looked.items()
        if "not_looked" in one
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


def document(findings: Sequence[Finding], looked: Looked) -> str:
    """All of it as JSON."""
    content = {"findings": [asdict(one) for one in sorted(findings)], "linters": looked}
    return document_text("package-lint", content)


def _line(one: Finding) -> str:
    place = "".join(f":{number}" for number in (one.line, one.column) if number)
    return harmless(f"{one.path}{place}: {one.message} [{one.linter}]".removeprefix(": "))


def _annotation(one: Finding, below: Path) -> str:
    place = {"file": one_line(str(below / one.path), 4000)} if one.path else {}
    place |= {key: str(value) for key, value in (("line", one.line), ("col", one.column)) if value}
    return command("error", one_line(one.message), **place, title=one_line(one.linter))
