"""What `spyre-ci init` notes in a checkout: what it last wrote, so that the next time is a merge."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from ci.core.errors import BadFileError
from test_selection.files import schema_name

FILE = ".spyre-ci-init.json"
KIND = "init-notes"
# A text of ours has some thousand characters; what unpacks to more is none.
MOST_BYTES = 1 << 20
_AGAIN = f"take it back from Git, or remove {FILE}: files that are there are then kept as they are"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """What was written last.

    Attributes:
        toolkit: identity of the toolkit that wrote it; empty where nothing was.
        asked: what people said on the command line, by name: device, package, toolkit, ref.
        texts: what was written, by path; a file's own changes since then are the checkout's.
    """

    toolkit: str = ""
    asked: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)


def to_text(notes: Notes) -> str:
    """The notes as their file has them: a line a file, so that Git shows which one changed."""
    content = {
        "schema": schema_name(KIND),
        "about": "What `spyre-ci init` last wrote here. Commit it, and leave it to `spyre-ci init`.",
        "toolkit": notes.toolkit,
        "asked": dict(sorted(notes.asked.items())),
        "files": {path: _packed(text) for path, text in sorted(notes.texts.items())},
    }
    return json.dumps(content, indent=1, ensure_ascii=True) + "\n"


def parse(text: str, path: Path) -> Notes:
    """Read the notes.

    Args:
        text: of their file.
        path: of it, for messages.

    Raises:
        BadFileError: they are none, or of another version.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"cannot be read as JSON: {error}", where=path, remedy=_AGAIN) from error
    seen = content.get("schema") if isinstance(content, dict) else None
    if seen != schema_name(KIND):
        raise BadFileError(f"schema is {seen!r}, not {schema_name(KIND)!r}", where=path, remedy=_AGAIN)
    return Notes(
        toolkit=_text(content.get("toolkit", ""), "toolkit", path),
        asked={name: _text(value, "asked", path) for name, value in _table(content, "asked", path).items()},
        texts={
            _below(name, path): _unpacked(value, name, path)
            for name, value in _table(content, "files", path).items()
        },
    )


def _packed(text: str) -> str:
    # No time and no name in it: the same text gives the same line, which is one word and no
    # spelling mistake.
    return zlib.compress(text.encode(), 9).hex()


def _unpacked(value: Any, name: str, path: Path) -> str:
    try:
        unpack = zlib.decompressobj()
        data = unpack.decompress(bytes.fromhex(_text(value, name, path)), MOST_BYTES)
        text = data.decode()
    except (zlib.error, ValueError) as error:
        raise BadFileError(
            f"files.{name!r} cannot be unpacked: {error}", where=path, remedy=_AGAIN
        ) from error
    if not unpack.eof:
        raise BadFileError(f"files.{name!r} is cut short or too large", where=path, remedy=_AGAIN)
    return text


def _below(name: str, path: Path) -> str:
    """A path that stays below the checkout, whoever wrote it."""
    if (
        not name
        or "\\" in name
        or re.search(r"[\x00-\x1f]", name)
        or not set(PurePosixPath(name).parts).isdisjoint({"..", "/"})
    ):
        raise BadFileError(
            f"files names {name!r}, which is no path in the checkout", where=path, remedy=_AGAIN
        )
    return name


def _table(content: Any, key: str, path: Path) -> dict[str, Any]:
    found = content.get(key, {})
    if not isinstance(found, dict):
        raise BadFileError(f"{key} is no table", where=path, remedy=_AGAIN)
    return found


def _text(value: Any, key: str, path: Path) -> str:
    if not isinstance(value, str):
        raise BadFileError(f"{key} holds {value!r}, which is no text", where=path, remedy=_AGAIN)
    return value
