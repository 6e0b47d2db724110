"""The lines of a track's `events.jsonl`: written, read and mended as text; pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from ci.core.errors import BadFileError
from ci.core.text import clip, escaped
from ci.pins.events import EVENT, KINDS, Event, Requested

_SHOWN = 200


def next_id(events: Sequence[Event]) -> int:
    """The number of the next request."""
    return 1 + max((one.id for one in events if isinstance(one, Requested)), default=0)


def line_of(event: Event) -> bytes:
    """An event as the file has it; what is as nobody told it is left out, so that lines stay short."""
    told = EVENT.dump_python(event, mode="json", exclude_defaults=True)
    return (json.dumps({"kind": event.kind, **told}, ensure_ascii=True) + "\n").encode()


def with_line(content: bytes, event: Event) -> bytes:
    """The file's content with one more event, without what was cut short at its end."""
    whole = content.removesuffix(cut_end(content))
    return whole + (b"\n" if whole and not whole.endswith(b"\n") else b"") + line_of(event)


def cut_end(content: bytes) -> bytes:
    """What a crash left of the last line: it has no end and is no event; empty where all is well."""
    last = content.rpartition(b"\n")[2]
    if not last:
        return b""
    try:
        EVENT.validate_json(last)
    except ValidationError:
        return last
    return b""


def parse(content: bytes, path: Path) -> list[Event]:
    """The events of a content, without what was cut short at its end.

    Raises:
        BadFileError: a line is no event, or the number of a request stands twice.
    """
    lines = content.removesuffix(cut_end(content)).split(b"\n")
    events: list[Event] = []
    ids: dict[int, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        event = _event(line, f"{path}:{number}")
        if isinstance(event, Requested):
            if event.id in ids:
                raise BadFileError(
                    f"id: request {event.id} stands twice, first on line {ids[event.id]}",
                    where=f"{path}:{number}",
                    remedy="give the later one the next free number, as after a merge of two branches",
                )
            ids[event.id] = number
        events.append(event)
    return events


def _event(line: bytes, where: str) -> Event:
    try:
        return EVENT.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        # The first part of a place is the kind of event, which is no key of the line.
        key = ".".join(str(part) for part in first["loc"] if part not in KINDS) or "the line"
        raise BadFileError(
            escaped(f"{key}: {first['msg']} (seen: {shown(line)})"),
            where=where,
            remedy="mend the line, or put it back as it was committed",
        ) from None


def shown(line: bytes) -> str:
    """The beginning of a line, for a message."""
    return clip(line.decode(errors="replace"), _SHOWN)
