"""Events of journals as JSON objects, as a test writes and compares them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import to_builtins

from ci.record.events import JournalEvent, parse

Row = dict[str, Any]


def events_from(rows: Iterable[Row]) -> list[JournalEvent]:
    return [parse(row) for row in rows]


def rows_of(events: Iterable[JournalEvent]) -> list[Row]:
    """Without what has its default."""
    return [to_builtins(event) for event in events]
