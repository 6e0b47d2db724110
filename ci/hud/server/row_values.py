"""Rows of tests as the store's columns, and what is counted of them while they pass; pure."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ci.hud.identity import key_of_test
from ci.hud.row_verdict import told
from ci.hud.rows import Job, counted_as

COLUMNS = (
    "workflow_id",
    "workflow_run_attempt",
    "job_id",
    "invoking_file",
    "file",
    "classname",
    "name",
    "line",
    "time",
    "failure",
    "error",
    "skipped",
    "rerun",
    "system_out",
    "system_err",
    "properties",
    "test_id",
    "test_key",
    "place",
    "verdict",
    "cause",
    "card",
    "attempts",
    "message",
    "upload_id",
)
COUNTS = ("tests", "errors", "failures", "skipped", "successes", "time")
Values = tuple[Any, ...]


@dataclass(slots=True)
class Totals:
    """What is counted of a file's rows.

    Attributes:
        rows: how many there were.
        cards: tests and seconds by card and verdict.
        summaries: COUNTS by invoking file, file and class.
    """

    rows: int = 0
    cards: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(lambda: [0, 0.0]))
    summaries: dict[tuple[str, str, str], list[float]] = field(
        default_factory=lambda: defaultdict(lambda: [0, 0, 0, 0, 0, 0.0])
    )


def values_of(
    rows: Iterable[Mapping[str, Any]], job: Job, *, upload: int, totals: Totals
) -> Iterator[Values]:
    """The values of COLUMNS of each row.

    Args:
        rows: as `ci.hud.rows.case_row` makes them.
        job: whose they are.
        upload: the number of the file they came in.
        totals: is added to.
    """
    places: dict[str, int] = {}
    ids = job.numbers()
    for row in rows:
        said = told(row)
        place = places.get(said.test_id, 0)
        places[said.test_id] = place + 1
        _count(totals, row, said.verdict, said.card)
        yield (
            *ids,
            row["invoking_file"],
            row["file"],
            row["classname"],
            row["name"],
            row.get("line"),
            row["time"],
            _json(row.get("failure")),
            _json(row.get("error")),
            _json(row.get("skipped")),
            _json(row.get("rerun")),
            _text(row.get("system-out")),
            _text(row.get("system-err")),
            _json(row.get("properties")),
            said.test_id,
            key_of_test(said.test_id, place),
            place,
            said.verdict,
            said.cause,
            said.card,
            said.attempts,
            said.message,
            upload,
        )


def summary_totals(rows: Iterable[Mapping[str, Any]]) -> Totals:
    """What rows of `test_run_summary` tell of tests nobody sent one by one; their card is not known."""
    totals = Totals()
    for row in rows:
        totals.rows += 1
        one = totals.summaries[row["invoking_file"], row["file"], row["classname"]]
        for place, name in enumerate(COUNTS):
            one[place] += row[name]
        parts = {
            "passed": row["successes"],
            "skipped": row["skipped"],
            "failed": row["failures"] + row["errors"],
        }
        for verdict, number in parts.items():
            if number:
                card = totals.cards["", verdict]
                card[0] += number
                card[1] += row["time"] * number / max(1, row["tests"])
    return totals


def _count(totals: Totals, row: Mapping[str, Any], verdict: str, card: str) -> None:
    totals.rows += 1
    seconds = row["time"]
    by_card = totals.cards[card, verdict]
    by_card[0] += 1
    by_card[1] += seconds
    summary = totals.summaries[row["invoking_file"], row["file"], row["classname"]]
    summary[0] += 1
    summary[COUNTS.index(counted_as(row))] += 1
    summary[5] += seconds


def _json(value: Any) -> str:
    return "" if value is None else json.dumps(value, separators=(",", ":"))


def _text(value: Mapping[str, Any] | None) -> str:
    return "" if value is None else str(value["text"])
