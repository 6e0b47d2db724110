"""What files of ours say of themselves and of each other; a broken one says nothing, and breaks nothing."""

from __future__ import annotations

import math
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ci.report.released import words_of
from ci.retention.things import Thing
from test_selection.errors import SpyreCiError
from test_selection.files import load_json

_HEAD = re.compile(rb'\s*\{\s*"schema"\s*:\s*"spyre-ci/([a-z-]+)/\d+"')
_HEAD_BYTES = 200
# In the year 5138: any time as late is as good as any other.
_LAST_S = 1e11
# No file in which one run names another is as large; plans and summaries are, and name none.
_SMALL = 256 << 10


def schema_of(path: Path) -> str:
    """The kind of a file of ours; empty of any other, and of one that cannot be read."""
    if not path.is_file():  # a named pipe would wait for whoever writes into it
        return ""
    try:
        with path.open("rb") as stream:
            head = _HEAD.match(stream.read(_HEAD_BYTES))
    except OSError:
        return ""
    return head[1].decode() if head else ""


def read_any(path: Path) -> Mapping[str, Any] | None:
    """A file's content; None where it is not there or not to be read."""
    if not path.is_file():
        return None
    try:
        content = load_json(path, path.stem)
    except (SpyreCiError, OSError):
        return None
    return content if isinstance(content, Mapping) else None


def table_of(content: Mapping[str, Any] | None, key: str) -> Mapping[str, Any] | None:
    """A table of a file's content; None where there is none."""
    value = None if content is None else content.get(key)
    return value if isinstance(value, Mapping) else None


def epoch_of(value: Any) -> float | None:
    """A time, as ISO-8601 or in seconds since the epoch; None of anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        # What no calendar has is in the future all the same.
        if isinstance(value, float) and math.isnan(value):
            return None
        return float(min(max(value, -_LAST_S), _LAST_S))
    with suppress(ValueError, TypeError, OverflowError):
        return min(datetime.fromisoformat(value).timestamp(), _LAST_S)
    return None


def with_names(things: list[Thing], folder: Path) -> list[Thing]:
    """The things, each with those of them that its files name: `--resume RUN`, a control, a run again."""
    known: dict[str, set[str]] = {}
    for one in things:
        for called in calls_of(folder / one.name):
            known.setdefault(called, set()).add(one.name)
    # A copy of a run is not what the run's name means; of copies alone, any may be meant.
    known |= {one.name: {one.name} for one in things}
    found = []
    for one in things:
        named = (known[word] for word in words_in(folder / one.name) & known.keys())
        found.append(replace(one, names=frozenset().union(*named) - {one.name}))
    return found


def calls_of(folder: Path) -> set[str]:
    """What a run is called: its folder may have been given another name than it has."""
    identity = read_any(folder / "run.json") or {}
    return {folder.name} | {one for one in (identity.get("run"),) if isinstance(one, str) and one}


def words_in(folder: Path) -> set[str]:
    """Every word of a folder's small JSON files, at its top."""
    found: set[str] = set()
    for path in folder.glob("*.json"):
        with suppress(OSError, SpyreCiError, RecursionError):
            seen = path.lstat()
            plain = stat.S_ISREG(seen.st_mode) and seen.st_size <= _SMALL
            if plain and path.name not in {"plan.json", "selection.json"}:
                _collect(load_json(path, path.stem), found)
    return found


def _collect(value: Any, into: set[str]) -> None:
    if isinstance(value, str):
        into |= words_of(value)
    elif isinstance(value, Mapping):
        for one in value.values():
            _collect(one, into)
    elif isinstance(value, list):
        for one in value:
            _collect(one, into)
