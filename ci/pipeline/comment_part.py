"""One run folder's part of the comment on a pull request: counts, what changed, what failed and how; pure.

Whatever comes from a run stands in code, as in a run's summary: it makes no link, no mention and no markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ci.compare.comparison import compare_sides
from ci.compare.markdown import sections
from ci.pipeline.side import side_of
from ci.pipeline.told import Row, Told, command_for
from ci.record.verdict import Verdict
from ci.report.summary import code, fence

MAX_ROWS = 20
MAX_COMMANDS = 10
MAX_NAMES = 10
# Longer ones nobody pastes.
LONGEST = 2000
_OTHERS = {
    Verdict.HARDWARE: "Fault of the card",
    Verdict.INFRASTRUCTURE: "Lost to infrastructure",
    Verdict.NOT_RUN: "Not run",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One run folder of a pipeline.

    Attributes:
        title: what it is of, such as the artifact's name.
        told: what it tells; None where nothing usable was handed on.
        trouble: why there is nothing.
        base: what main's run tells; None where there is none to compare with.
        base_said: which run that is, or why there is none.
    """

    title: str
    told: Told | None = None
    trouble: str = ""
    base: Told | None = None
    base_said: str = ""


def headline(part: Part) -> str:
    """How a part came out, in a few lines."""
    if part.told is None:
        why = f" ({code(part.trouble, 300)})" if part.trouble else ""
        return f"**{code(part.title, 80)}**: no results{why}"
    told = part.told
    counts = told.counts
    said = ", ".join(f"{counts[one]:,} {one.words}" for one in Verdict if counts[one]) or "no tests"
    stage = "" if told.who.stage is None else f"stage {told.who.stage}, "
    pytorch = f"PyTorch {code(told.who.pytorch_version, 60)} {code(told.who.pytorch_sha[:12])}"
    lines = [
        f"**{code(part.title, 80)}**: {said}",
        f"{stage}{told.who.percent:g} % · device {code(told.who.device, 60)} · {pytorch}",
    ]
    if told.reasons:
        lines.append(f"exit {told.exit_code}: {'; '.join(code(one, 200) for one in told.reasons[:5])}")
    lines += [code(note, 300) for note in told.notes[:5]]
    return "  \n".join(lines)


def details_of(part: Part) -> list[str]:
    """What follows of a part, the most wanted first."""
    told = part.told
    if told is None:
        return []
    failed = [row for row in told.rows if row.red]
    changed, *times = _changes(part)
    texts = [changed, *_table("Failed", failed), *_commands(failed, told)]
    texts += [*_uncollected(told), *times]
    texts += _table("Flaky", [row for row in told.rows if row.verdict is Verdict.FLAKY])
    for verdict, title in _OTHERS.items():
        texts += _table(title, [row for row in told.rows if row.verdict is verdict])
    texts += _table(
        "Failed in quarantine", [row for row in told.rows if row.verdict is Verdict.FAILED and not row.red]
    )
    return texts


def _changes(part: Part) -> list[str]:
    """What changed against main, as `spyre-ci compare` says it, or why nobody knows; at least one text."""
    if part.told is None or part.base is None:
        return [f"Not compared with main: {code(part.base_said, 200)}" if part.base_said else ""]
    return sections(compare_sides(side_of(part.told), side_of(part.base)), part.base_said, limit=MAX_NAMES)


def _table(title: str, rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    lines = [f"#### {title} ({len(rows):,})", "", "| test | cause | card | message |", "|---|---|---|---|"]
    for row in rows[:MAX_ROWS]:
        # Whose it is, where the control device told.
        cause = "; ".join(filter(None, (row.cause, "upstream's" if row.upstream else "")))
        cells = (code(row.id), code(cause, 80), code(row.card or "", 80), code(row.message, 200))
        lines.append(f"| {' | '.join(cells)} |")
    if len(rows) > MAX_ROWS:
        lines += ["", f"{len(rows) - MAX_ROWS:,} more in the run's report"]
    return ["\n".join(lines)]


def _commands(failed: Sequence[Row], told: Told) -> list[str]:
    """How to run what failed again on a machine of one's own, folded away."""
    lines = [
        line
        for row in failed[:MAX_COMMANDS]
        if len(line := command_for(row.id, told.who, row.tried)) <= LONGEST
    ]
    if not lines:
        return []
    title = "Reproduce" + (f" (the first {MAX_COMMANDS})" if len(failed) > MAX_COMMANDS else "")
    return [f"<details><summary>{title}</summary>\n\n{fence(chr(10).join(lines), 'sh')}\n\n</details>"]


def _uncollected(told: Told) -> list[str]:
    errors = told.collect_errors
    if not errors:
        return []
    rows = [f"- {code(one.file, 200)}: {code(one.error, 200)}" for one in errors[:MAX_ROWS]]
    more = [f"- and {len(errors) - MAX_ROWS:,} more"] if len(errors) > MAX_ROWS else []
    return ["\n".join([f"#### Could not be collected ({len(errors):,})", "", *rows, *more])]
