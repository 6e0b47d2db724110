"""Results for machines: `results.jsonl.gz`, a line a test, and `summary.json`, the run in one document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from ci.core.errors import BadFileError
from ci.core.text import iso_utc
from ci.record.environment import ran_in_of, rows_of
from ci.record.identity import identity_from_json
from ci.record.marks import control_from_json, mark_to_json, quarantined_from_json
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.quarantine_note import note_from_json as quarantine_from_json
from ci.report.quarantine_note import note_to_json as quarantine_to_json
from ci.report.totals import CollectError, Share, Summary
from test_selection.bucket_note import bucket_note_from_json, bucket_note_to_json
from test_selection.files import read_json, read_lines, write_json, write_lines
from test_selection.ladder_note import note_from_json, note_to_json

RESULTS_KIND, RESULTS_FILE = "results", "results.jsonl.gz"
SUMMARY_KIND, SUMMARY_FILE = "summary", "summary.json"


def write_results(path: Path, run: str, results: Sequence[Result]) -> None:
    """Write `results.jsonl.gz`: a header line, then a line a test; fields without content are left out."""
    header = {"run": run, "planned": len(results)}
    write_lines(path, RESULTS_KIND, header, (_row(result) for result in results))


def read_results(path: Path) -> list[Result]:
    """Read `results.jsonl.gz`.

    Raises:
        MissingInputError: there is no such file.
        BadFileError: it is cut short, of another schema, or a key is missing or of the wrong kind.
    """
    lines = read_lines(path, RESULTS_KIND)
    header = next(lines)
    results = []
    for number, row in enumerate(lines, start=2):
        try:
            results.append(_result(row))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _bad(f"{path}:{number}", error) from error
    if len(results) != header.get("planned"):
        raise BadFileError(
            f"holds {len(results)} results, not {header.get('planned')}",
            where=path,
            remedy="report again with `spyre-ci report`",
        )
    return results


def write_summary(path: Path, summary: Summary) -> None:
    """Write `summary.json`; the same summary gives the same bytes."""
    identity = summary.identity.as_json()
    identity["completed_at"] = iso_utc(summary.completed_at)
    content = {
        "run": summary.identity.run,
        "planned": summary.planned,
        "verdicts": {verdict.value: summary.verdicts.get(verdict, 0) for verdict in Verdict},
        "collect_errors": [asdict(one) for one in summary.collect_errors],
        "exit_code": summary.exit_code,
        "reasons": list(summary.reasons),
        "identity": identity,
        "in_scope": summary.in_scope,
        "shares": {name: _rounded(share) for name, share in summary.shares.items()},
        "seconds": summary.seconds,
        "torn": summary.torn,
        "notes": list(summary.notes),
        "missing_shards": list(summary.missing_shards),
        "unplanned": summary.unplanned,
        "unplanned_ids": list(summary.unplanned_ids),
        "foreign_journals": list(summary.foreign_journals),
        "file_errors": [asdict(one) for one in summary.file_errors],
        "interrupted": summary.interrupted,
        "allow_collect_errors": summary.allow_collect_errors,
        "ladder": note_to_json(summary.ladder),
        "bucket": bucket_note_to_json(summary.bucket),
        "quarantined": 0 if summary.quarantine is None else summary.quarantine.tests,
        "quarantine": quarantine_to_json(summary.quarantine),
        "upstream": summary.upstream,
        "control": summary.control or None,
        "cards": summary.cards,
        "in_scope_s": summary.in_scope_s,
        "first_failure_s": summary.first_failure_s,
        "ran_in": rows_of(summary.ran_in),
    }
    write_json(path, SUMMARY_KIND, content)


def read_summary(path: Path) -> Summary:
    """Read `summary.json`.

    Raises:
        MissingInputError: there is no such file.
        BadFileError: a key is missing or of the wrong kind.
    """
    content = read_json(path, SUMMARY_KIND)
    try:
        return Summary(
            identity=identity_from_json(content["identity"], where=path),
            planned=int(content["planned"]),
            verdicts={verdict: int(content["verdicts"][verdict.value]) for verdict in Verdict},
            collect_errors=_errors(content["collect_errors"]),
            exit_code=int(content["exit_code"]),
            reasons=tuple(content["reasons"]),
            completed_at=_epoch(content["identity"]["completed_at"]),
            in_scope=int(content["in_scope"]),
            shares={name: Share(**share) for name, share in content["shares"].items()},
            seconds=float(content["seconds"]),
            torn=int(content["torn"]),
            notes=tuple(content.get("notes", ())),
            missing_shards=tuple(content["missing_shards"]),
            unplanned=int(content["unplanned"]),
            unplanned_ids=tuple(content["unplanned_ids"]),
            foreign_journals=tuple(content["foreign_journals"]),
            file_errors=_errors(content["file_errors"]),
            interrupted=bool(content["interrupted"]),
            allow_collect_errors=bool(content["allow_collect_errors"]),
            ladder=note_from_json(content.get("ladder")),
            bucket=bucket_note_from_json(content.get("bucket")),
            quarantine=quarantine_from_json(content.get("quarantine")),
            control=content.get("control") or "",
            upstream=int(content.get("upstream", 0)),
            cards=int(content.get("cards", 0)),
            in_scope_s=_seconds(content.get("in_scope_s")),
            first_failure_s=_seconds(content.get("first_failure_s")),
            ran_in=tuple(ran_in_of(one) for one in content.get("ran_in", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _bad(path, error) from error


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
    rare = ("cause", "detail", "started_at", "expectation", "leak")
    row |= {name: value for name in rare if (value := getattr(result, name))}
    if result.seed is not None:
        row |= {"seed": result.seed, "tried": result.tried}
    if result.quarantine is not None:
        row["quarantine"] = mark_to_json(result.quarantine)
    if result.control is not None:
        row |= {"upstream": result.upstream, "control": mark_to_json(result.control)}
    return row


def _result(row: Mapping[str, Any]) -> Result:
    content = {key: value for key, value in row.items() if key != "upstream"}
    content["verdict"] = Verdict(row["verdict"])
    content["quarantine"] = quarantined_from_json(row.get("quarantine"))
    content["control"] = control_from_json(row.get("control"))
    return Result(**content)


def _rounded(share: Share) -> dict[str, Any]:
    return {
        name: round(value, 6) if isinstance(value, float) else value for name, value in asdict(share).items()
    }


def _errors(rows: Iterable[Mapping[str, Any]]) -> tuple[CollectError, ...]:
    return tuple(
        CollectError(file=row["file"], error=row["error"], detail=row.get("detail", "")) for row in rows
    )


def _seconds(value: Any) -> float | None:
    return None if value is None else float(value)


def _epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _bad(where: Path | str, error: Exception) -> BadFileError:
    return BadFileError(
        f"a key is missing or of the wrong kind: {error}",
        where=where,
        remedy="report again with `spyre-ci report`",
    )
