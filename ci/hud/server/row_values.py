"""Rows of tests made ready for a store, and what is counted of them while they pass by; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ci.hud.identity import key_of_test
from ci.hud.row_verdict import told
from ci.hud.rows import TAGS, Row, counted_as

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
# Columns a row leaves out where they have this value.
DEFAULTS: Mapping[str, str | int | None] = {
    "line": None,
    "failure": "",
    "error": "",
    "skipped": "",
    "rerun": "",
    "system_out": "",
    "system_err": "",
    "properties": "",
    "place": 0,
    "cause": "",
    "card": "",
    "attempts": 1,
    "message": "",
}
_ELEMENTS = (*TAGS, "properties")
_LONG = frozenset({*TAGS, "system_out", "system_err", "properties"})
_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Totals:
    """What is counted of a file's rows.

    Attributes:
        rows: how many were stored.
        cards: tests and seconds by card and verdict.
        summaries: COUNTS by invoking file, file and class.
    """

    rows: int = 0
    cards: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(lambda: [0, 0.0]))
    summaries: dict[tuple[str, str, str], list[float]] = field(
        default_factory=lambda: defaultdict(lambda: [0, 0, 0, 0, 0, 0.0])
    )


def columns_of(rows: Iterable[Row], *, upload: int) -> Iterator[Row]:
    """The columns of each row, those of DEFAULTS left out where they have that value.

    Args:
        rows: as `ci.hud.rows.case_row` makes them; each is changed into what is given.
        upload: the number of the file they came in.
    """
    places: dict[str, int] = {}
    for row in rows:
        said = told(row)
        test_id = said.test_id
        row["test_id"] = test_id
        if place := places.get(test_id, 0):
            row["place"] = place
        places[test_id] = place + 1
        row["test_key"] = key_of_test(test_id, place)
        row["verdict"] = said.verdict
        row["upload_id"] = upload
        if said.card:
            row["card"] = said.card
        if said.attempts != 1:
            row["attempts"] = said.attempts
        if said.message:
            row["message"] = said.message
            row["cause"] = said.cause
        _flatten(row)
        yield row


def counted(rows: Iterable[Row], totals: Totals) -> Iterator[Row]:
    """The rows as they are; each is counted.

    Args:
        rows: of `columns_of`.
        totals: is added to.
    """
    cards, summaries = totals.cards, totals.summaries
    for row in rows:
        seconds = row["time"]
        by_card = cards[row.get("card", ""), row["verdict"]]
        by_card[0] += 1
        by_card[1] += seconds
        summary = summaries[row["invoking_file"], row["file"], row["classname"]]
        summary[0] += 1
        summary[COUNTS.index(counted_as(row))] += 1
        summary[5] += seconds
        yield row


def chunks(rows: Iterable[Row], *, most_rows: int, most_characters: int) -> Iterator[list[Row]]:
    """The rows in pieces for a store, so that neither many nor long ones fill the memory.

    Args:
        rows: of `columns_of`.
        most_rows: in a piece.
        most_characters: after which a piece ends, however few rows it has.
    """
    chunk: list[Row] = []
    characters = 0
    for row in rows:
        chunk.append(row)
        characters += 4 * len(row["test_id"])
        if not _LONG.isdisjoint(row):
            characters += sum(len(row[name]) for name in _LONG if name in row)
        if len(chunk) == most_rows or characters >= most_characters:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def summary_totals(rows: Iterable[Mapping[str, Any]]) -> Totals:
    """What rows of `test_run_summary` tell of tests nobody sent one by one; their card is not known."""
    totals = Totals()
    for row in rows:
        totals.rows += 1
        one = totals.summaries[row["invoking_file"], row["file"], row["classname"]]
        for place, name in enumerate(COUNTS):
            one[place] += row[name]
        failed = row["failures"] + row["errors"]
        for verdict, number in (
            ("passed", row["successes"]),
            ("skipped", row["skipped"]),
            ("failed", failed),
        ):
            if number:
                card = totals.cards["", verdict]
                card[0] += number
                card[1] += row["time"] * number / max(1, row["tests"])
    return totals


def _flatten(row: Row) -> None:
    """Elements become JSON, and what a test wrote becomes text."""
    for tag in _ELEMENTS:
        if tag in row:
            row[tag] = _encode(row[tag]).decode()
    if "system-out" in row:
        row["system_out"] = row.pop("system-out")["text"]
    if "system-err" in row:
        row["system_err"] = row.pop("system-err")["text"]
