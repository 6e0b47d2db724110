"""Events of journals as JSON objects, as a test writes and compares them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import fields

from ci.record.events import JournalEvent, parse

Row = dict[str, Any]


def events_from(rows: Iterable[Row]) -> list[JournalEvent]:
    return [parse(row) for row in rows]


def row_of(event: JournalEvent) -> Row:
    tag = event.__struct_config__.tag
    return {"e": tag, **{one.encode_name: getattr(event, one.name) for one in fields(event)}}


def rows_of(events: Iterable[JournalEvent]) -> list[Row]:
    return [row_of(event) for event in events]
