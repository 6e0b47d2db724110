"""GitHub's event of this job as it came: data that anybody may have written, read with care."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ci.core.errors import BadFileError, MissingInputError, UsageError

# GitHub sends no payload above 25 MB.
MAX_BYTES = 32 << 20
_REMEDY = "run this in the job that the event began"


def event_payload(environ: Mapping[str, str], *names: str) -> Mapping[str, Any]:
    """The event's payload, where it is one of these names.

    Raises:
        UsageError: another event began this job, or none did.
        MissingInputError: the payload is not there.
        BadFileError: it cannot be read.
    """
    name, path = environ.get("GITHUB_EVENT_NAME", ""), environ.get("GITHUB_EVENT_PATH", "")
    if name not in names or not path:
        seen = f"the event is {name!r:.60}" if name else "there is no event of GitHub's"
        raise UsageError(f"{seen}, not {' or '.join(names)}", where="GITHUB_EVENT_NAME", remedy=_REMEDY)
    return read_payload(Path(path))


def read_payload(path: Path) -> Mapping[str, Any]:
    """A payload out of its file.

    Raises:
        MissingInputError: it is not there.
        BadFileError: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise MissingInputError(
            f"the event cannot be read: {error.strerror}", where=path, remedy=_REMEDY
        ) from error
    if len(data) > MAX_BYTES:
        raise BadFileError(f"the event has more than {MAX_BYTES:,} bytes", where=path, remedy=_REMEDY)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"the event is no JSON: {error}", where=path, remedy=_REMEDY) from error
    if not isinstance(content, dict):
        raise BadFileError("the event is no JSON object", where=path, remedy=_REMEDY)
    return content


def text_at(content: Any, *keys: str) -> str:
    """The text at a place; empty where there is none, or something else."""
    found = at(content, *keys)
    return found if isinstance(found, str) else ""


def number_at(content: Any, *keys: str) -> int:
    """The whole number above 0 at a place; 0 where there is none, or something else."""
    found = at(content, *keys)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0


def at(content: Any, *keys: str) -> Any:
    """What is at a place of nested objects; None where there is none."""
    for key in keys:
        content = content.get(key) if isinstance(content, dict) else None
    return content
