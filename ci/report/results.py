"""Results for machines: `results.jsonl.gz`, a line a test, and `summary.json`, the run in one document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ci.core.errors import BadFileError
from ci.core.text import counted, iso_utc
from ci.record.environment import ran_in_of
from ci.record.failure_marks import mark_to_json
from ci.record.identity import epoch_in, identity_from_json
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.totals import Share, Summary
from test_selection.files import convert, read_json, read_lines, write_json, write_lines

RESULTS_KIND, RESULTS_FILE = "results", "results.jsonl.gz"
_REMEDY = "report again with `spyre-ci report`"
SUMMARY_KIND, SUMMARY_FILE = "summary", "summary.json"


def write_results(path: Path, run: str, results: Sequence[Result]) -> None:
    """Write `results.jsonl.gz`: a header line, then a line a test; fields without content are left out."""
    header = {"run": run, "planned": len(results)}
    write_lines(path, RESULTS_KIND, header, (_row(result) for result in results))


def read_results(path: Path) -> list[Result]:
    """Read `results.jsonl.gz`.

    Raises:
        MissingInputError: there is no such file.
        BadFileError: it is truncated, of another schema, or a key is missing or of the wrong kind.
    """
    lines = read_lines(path, RESULTS_KIND)
    header = next(lines)
    results = []
    for number, row in enumerate(lines, start=2):
        results.append(convert(row, Result, where=f"{path}:{number}", remedy=_REMEDY))
    if len(results) != header.get("planned"):
        raise BadFileError(
            f"holds {counted(len(results), 'result')}, not {header.get('planned')}",
            where=path,
            remedy=_REMEDY,
        )
    return results


def write_summary(path: Path, summary: Summary) -> None:
    """Write `summary.json`; the same summary gives the same bytes."""
    identity = summary.identity.as_json() | {"completed_at": iso_utc(summary.completed_at)}
    content: dict[str, Any] = {"run": summary.identity.run}
    for name, value in asdict(summary).items():
        if name == "quarantine":
            content["quarantined"] = 0 if summary.quarantine is None else summary.quarantine.tests
        if name != "completed_at" and (name, value) != ("change", None):
            content[name] = value
    content |= {
        "identity": identity,
        "verdicts": {verdict.value: summary.verdicts.get(verdict, 0) for verdict in Verdict},
        "shares": {name: _rounded(share) for name, share in summary.shares.items()},
        "control": summary.control or None,
        "ran_in": [asdict(one) for one in summary.ran_in],
    }
    write_json(path, SUMMARY_KIND, content)


def read_summary(path: Path) -> Summary:
    """Read `summary.json`.

    Raises:
        MissingInputError: there is no such file.
        BadFileError: a key is missing or of the wrong kind.
    """
    content = read_json(path, SUMMARY_KIND)
    identity = content.get("identity")
    ran_in = convert(content.get("ran_in", []), list[dict[str, Any]], where=path, remedy=_REMEDY)
    summary = convert(
        content
        | {
            "identity": asdict(identity_from_json(identity, where=path)),
            "completed_at": epoch_in(identity, "completed_at", where=path, remedy=_REMEDY),
            "control": content.get("control") or "",
            "ran_in": [
                asdict(ran_in_of(one.get("back_end"), one.get("torch"), one.get("image"))) for one in ran_in
            ],
        },
        Summary,
        where=path,
        remedy=_REMEDY,
    )
    if absent := set(Verdict) - summary.verdicts.keys():
        raise BadFileError(f"has no count of {', '.join(sorted(absent))}", where=path, remedy=_REMEDY)
    return summary


def _row(result: Result) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": result.id,
        "verdict": result.verdict.value,
        "seconds": round(result.seconds, 6),
        "card": result.card,
        "attempts": result.attempts,
        "message": result.message,
        "file": result.file,
        "shard": result.shard,
    }
    rare = ("interrupted", "cause", "detail", "started_at", "expectation", "leak")
    row |= {name: value for name in rare if (value := getattr(result, name))}
    if result.seed is not None:
        row |= {"seed": result.seed, "tried": result.tried}
    if result.quarantine is not None:
        row["quarantine"] = mark_to_json(result.quarantine)
    if result.control is not None:
        row |= {"upstream": result.upstream, "control": mark_to_json(result.control)}
    return row


def _rounded(share: Share) -> dict[str, Any]:
    return {
        name: round(value, 6) if isinstance(value, float) else value for name, value in asdict(share).items()
    }
