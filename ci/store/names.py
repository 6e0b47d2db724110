"""Names as a table keeps them: as JSON writes them, so that any text comes back as it was."""

from __future__ import annotations

import json


def stored(name: str) -> str:
    """A name as the store keeps it."""
    return json.dumps(name)[1:-1]


def original(kept: str) -> str:
    """The name that `stored` was given."""
    return str(json.loads(f'"{kept}"')) if "\\" in kept else kept
