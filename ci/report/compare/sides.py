"""A run that was read, as one side of a comparison."""

from __future__ import annotations

import re
from datetime import datetime

from ci.core.text import counted
from ci.record.verdict import NO_OUTCOME, Verdict
from ci.report.compare.comparison import Side
from ci.report.reader import ReadRun, ReadSummary, Row

# What is under test differs by its version; that it is another back end altogether makes runs unlike.
_VERSION = re.compile(r" \d")


def side_of(run: ReadRun, *, name: str = "") -> Side[Row]:
    """A run as one side.

    Args:
        run: as its folder tells it.
        name: what it is called; empty: as it calls itself.
    """
    summary = run.summary
    checkout = f"checkout {summary.identity.commit[:12]}" if summary.identity.commit else ""
    return Side(
        run=name or summary.run,
        rows=run.rows,
        facts=_facts(summary),
        known=run.known,
        under_test=", ".join(filter(None, (_back_end(summary), checkout))),
        in_scope=summary.in_scope,
        lacking=_lacking(run),
        started_at=_epoch(summary.identity.started_at),
    )


def _lacking(run: ReadRun) -> str:
    lost = sum(row.verdict in NO_OUTCOME or row.verdict is Verdict.HARDWARE for row in run.rows)
    errors = len(run.summary.collect_errors)
    said = [f"{counted(lost, 'test')} without an outcome"] if lost else []
    return ", ".join(said + ([f"{counted(errors, 'file')} not collected"] if errors else []))


def _facts(summary: ReadSummary) -> dict[str, str]:
    """What two runs have to have in common to be compared test by test and second by second."""
    info = summary.identity
    return {
        "device": info.device,
        "PyTorch": info.pytorch_version,
        "commit of PyTorch": info.pytorch_sha[:40],
        "torch in the tests": ", ".join(sorted({one.torch for one in summary.ran_in if one.torch})),
        "back end": _VERSION.split(_back_end(summary))[0],
        "image": ", ".join(sorted({one.image for one in summary.ran_in if one.image})) or info.image,
        "stage": "" if info.stage is None else str(info.stage),
        "share": f"{info.percent:g} %",
        "restricted to": info.restricted or "no restriction",
        "cards": f"{summary.cards:,}" if summary.cards else "",
    }


def _back_end(summary: ReadSummary) -> str:
    """The back end as the tests' own processes said, else as it was planned."""
    return (
        ", ".join(sorted({one.back_end for one in summary.ran_in if one.back_end}))
        or summary.identity.back_end
    )


def _epoch(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None
