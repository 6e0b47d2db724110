"""The names a run folder's hosts had in a share: who resumes the run knows which of the dead were itself.

A JSON object a line, appended and synced before the name claims anything; a line that was cut names nobody.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from ci.core.errors import FileSystemError

FILE = "share-names.jsonl"


def note_name(path: Path, name: str) -> None:
    """Note a name for whoever resumes the run.

    Raises:
        FileSystemError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as stream:
            # After whatever a cut left.
            stream.write(b"\n" + json.dumps({"name": name}).encode() + b"\n")
            os.fsync(stream.fileno())
    except OSError as error:
        raise FileSystemError(
            f"the name of this host in the share cannot be noted: {error.strerror or error}",
            where=path,
            remedy="check the space and the rights of the run folder",
        ) from error


def read_names(path: Path) -> frozenset[str]:
    """The names that were noted; none where there is no such file, or none that can be read."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return frozenset()
    return frozenset(name for line in lines if (name := _name(line)) is not None)


def _name(line: bytes) -> str | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    name = row.get("name") if isinstance(row, dict) else None
    return name if isinstance(name, str) else None
