"""What a watch says: a line an event; pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ci.jobs.answers import Reply, error_of
from ci.jobs.errors import ClusterAwayError


def lines_of(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines, without their ends; what is left when the pieces end is no whole line and is dropped."""
    open_: list[bytes] = []
    for piece in pieces:
        *whole, rest = piece.split(b"\n")
        if whole:
            yield b"".join((*open_, whole[0]))
            yield from whole[1:]
            open_ = []
        open_.append(rest)


def events_of(pieces: Iterable[bytes], what: str) -> Iterator[dict[str, Any]]:
    """The events of a watch.

    Args:
        pieces: of its answer.
        what: was asked for.

    Raises:
        GoneError: the version it was to go on from is no longer kept.
        ClusterError: another error in place of an event.
        ClusterAwayError: a line is no event.
    """
    for line in lines_of(pieces):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
            kind, content = event["type"], event["object"]
        except (ValueError, RecursionError, TypeError, KeyError):
            raise ClusterAwayError(
                f"the watch {what} says what is no event", remedy="check that no proxy stands between"
            ) from None
        if kind == "ERROR":
            code = content.get("code") if isinstance(content, dict) else None
            status = code if isinstance(code, int) else 500
            raise error_of(Reply(status=status, headers={}, body=json.dumps(content).encode()), what)
        yield event
