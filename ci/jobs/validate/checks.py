"""Run all checks that need nothing but answers, and report them for a screen or to be signed. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_TEST_FAILED, UsageError
from ci.core.findings import FAILED, PASSED, UNASKED, Finding
from ci.core.templates import harmless_environment
from ci.core.text import one_line
from ci.core.workflow_commands import defused
from ci.jobs.validate import namespace, nodes
from ci.jobs.validate.facts import Asked, Facts, Node
from test_selection.files import write_text

FORMS: Mapping[str, str] = {".html": "report.html.j2", ".md": "report.md.j2"}
WORDS: Mapping[str, str] = {PASSED: "ok", FAILED: "FAIL", UNASKED: "NOT ASKED"}
# What Markdown has a meaning for in a line.
_MARKS = re.compile(r"[\\`*_\[\]|~]")
# Of a card in the drawing: pixels, and how many stand in a row.
CARD, GAP, ROW = 10, 2, 64


def unasked(check: str, why: str, remedy: str) -> Finding:
    """A check whose answer could not be had: the cluster did not say."""
    return Finding(check=check, seen=why, remedy=remedy, asked=False)


def exit_code(found: Sequence[Finding]) -> int:
    """3 where something could not be asked, 1 where a check failed, else 0."""
    states = {one.state for one in found}
    if UNASKED in states:
        return EXIT_INCOMPLETE
    return EXIT_TEST_FAILED if FAILED in states else EXIT_OK


def rows(found: Sequence[Finding]) -> list[dict[str, str]]:
    """The findings for machines."""
    return [{"check": one.check, "state": one.state, "seen": one.seen, "remedy": one.remedy} for one in found]


def as_json(found: Sequence[Finding]) -> str:
    """The findings as JSON: keys sorted, so that the same findings are the same bytes."""
    return json.dumps(rows(found), sort_keys=True, indent=1)


def digest(found: Sequence[Finding]) -> str:
    """SHA-256 of the findings' JSON: what a signature is under."""
    return hashlib.sha256(as_json(found).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check, what it is called where nobody can be asked, and which answers it needs.

    Attributes:
        name: of it.
        needs: fields of the facts.
        run: gives its findings; none where it has no meaning for what is asked.
        spyre: it is of Spyre cards alone.
    """

    name: str
    needs: tuple[str, ...]
    run: Callable[[Facts, Asked], Iterator[Finding]]
    spyre: bool = False


CHECKS: tuple[Check, ...] = (
    Check(name="API server", needs=("version",), run=nodes.api_server),
    Check(name="failure policy", needs=("version", "dropped"), run=nodes.failure_policy),
    Check(name="control plane", needs=("nodes",), run=nodes.control_plane),
    Check(name="cluster operators", needs=("operators",), run=nodes.cluster_operators),
    Check(name="worker nodes", needs=("nodes",), run=nodes.workers),
    Check(name="pressure", needs=("nodes",), run=nodes.pressure),
    Check(name="cordoned", needs=("nodes",), run=nodes.cordoned),
    Check(name="Spyre operator", needs=("definition", "policies"), run=nodes.operator, spyre=True),
    Check(name="device plugin", needs=("plugins",), run=nodes.device_plugin, spyre=True),
    Check(name="resource names", needs=("nodes",), run=nodes.resource_names),
    Check(name="node labels", needs=("nodes",), run=nodes.node_labels, spyre=True),
    Check(name="healthy cards", needs=("nodes",), run=nodes.healthy_cards),
    Check(name="sick cards", needs=("nodes", "node_states"), run=nodes.sick_cards),
    Check(name="tiers", needs=("nodes", "policies", "schedulers"), run=nodes.tiers),
    Check(name="nodes for the job", needs=("nodes",), run=namespace.places),
    Check(name="storage", needs=("storage_class", "claim"), run=namespace.storage),
    Check(name="quota", needs=("quotas",), run=namespace.quota),
    Check(name="limits", needs=("limits",), run=namespace.limit_range),
    Check(name="queue", needs=("kueue", "local_queue", "cluster_queue"), run=namespace.queue),
    Check(name="priority class", needs=("priority",), run=namespace.priority),
    Check(name="service account", needs=("account",), run=namespace.account),
    Check(name="rights", needs=("rights",), run=namespace.rights),
)


def check_all(facts: Facts, asked: Asked) -> list[Finding]:
    """The findings of every check; one whose answers were refused is told as not asked."""
    found: list[Finding] = []
    for check in CHECKS:
        if check.spyre and not nodes.is_spyre(asked):
            continue
        refused = [facts.unread[name] for name in check.needs if name in facts.unread]
        if refused:
            found.append(unasked(check.name, refused[0], "have somebody ask who may read it"))
        else:
            found += check.run(facts, asked)
    return found


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
