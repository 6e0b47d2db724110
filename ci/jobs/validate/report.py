"""The report of a validation: a table for a screen, and a page or Markdown that a person signs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from ci.core.errors import UsageError
from ci.core.findings import FAILED, PASSED, UNASKED, Finding
from ci.core.templates import harmless_environment
from ci.core.text import one_line
from ci.core.workflow_commands import defused
from ci.jobs.validate.checked import as_json, digest
from ci.jobs.validate.facts import Node
from test_selection.files import write_text

FORMS: Mapping[str, str] = {".html": "report.html.j2", ".md": "report.md.j2"}
WORDS: Mapping[str, str] = {PASSED: "ok", FAILED: "FAIL", UNASKED: "NOT ASKED"}
# What Markdown has a meaning for in a line.
_MARKS = re.compile(r"[\\`*_\[\]|~]")
# Of a card in the drawing: pixels, and how many stand in a row.
CARD, GAP, ROW = 10, 2, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What the report is of.

    Attributes:
        cluster: address, and the name that OpenShift has for it.
        namespace: jobs are put in.
        versions: of Kubernetes, OpenShift and this program, by name.
        at: when, in ISO-8601.
        stage: row of the roll-out and its cards, in words.
        image: that was tried; empty: none.
    """

    cluster: str
    namespace: str
    versions: Mapping[str, str]
    at: str
    stage: str
    image: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """A card in the drawing: where, and how it is."""

    x: int
    y: int
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A node in the drawing."""

    label: str
    note: str
    squares: tuple[Square, ...]
    height: int


def check_out(out: Path | None) -> None:
    """Refuse a report that is neither a page nor Markdown.

    Raises:
        UsageError: the name says something else.
    """
    if out is not None and out.suffix not in FORMS:
        raise UsageError(f"--out is {str(out)!r}", remedy="name a file that ends in .html or .md")


def table(found: Sequence[Finding]) -> Table:
    """The findings for a screen; what a cluster says commands neither it nor a CI."""
    shown = Table("check", "", "seen", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for one in found:
        style = {PASSED: "green", FAILED: "red"}.get(one.state, "yellow")
        seen = Text(defused(one_line(one.seen)))
        if one.remedy:
            seen.append(f"\nremedy: {defused(one_line(one.remedy))}", style="dim")
        shown.add_row(Text(one.check), Text(WORDS[one.state], style=style), seen)
    return shown


def counts(found: Sequence[Finding]) -> str:
    """How many checks came to what, in words."""
    number = Counter(one.state for one in found)
    parts = [f"{number[state]} {state}" for state in (PASSED, FAILED, UNASKED) if number[state]]
    return f"{len(found)} checks: {', '.join(parts)}"


def drawing(nodes: Sequence[Node]) -> list[Row]:
    """Each node's cards as squares: healthy, sick, or on a node that takes no pods."""
    rows = []
    for one in nodes:
        kinds = ["healthy" if one.usable else "shut"] * min(one.healthy, one.capacity)
        kinds += ["sick"] * one.sick
        squares = tuple(
            Square(x=(place % ROW) * (CARD + GAP), y=(place // ROW) * (CARD + GAP), kind=kind)
            for place, kind in enumerate(kinds)
        )
        lines = max(1, -(-len(kinds) // ROW))
        note = f"{one.healthy} of {one.capacity}" + ("" if one.usable else ", takes no pods")
        rows.append(Row(label=one.name, note=note, squares=squares, height=lines * (CARD + GAP)))
    return rows


def cell(text: str) -> str:
    """A text that stands in a cell of Markdown as it is; what HTML has a meaning for is escaped after it."""
    return _MARKS.sub(r"\\\g<0>", one_line(text))


def write_report(out: Path, about: About, found: Sequence[Finding], nodes: Sequence[Node]) -> None:
    """Write the report; its ending says which."""
    environment = harmless_environment("ci.jobs.validate")
    environment.filters["cell"] = cell
    template = environment.get_template(FORMS[out.suffix])
    content = template.render(
        about=about,
        found=found,
        words=WORDS,
        counts=counts(found),
        nodes=nodes,
        rows=drawing(nodes),
        size=CARD,
        digest=digest(found),
        findings=as_json(found),
    )
    write_text(out, content)
