"""What `--json` prints, held to the table of docs/json.md."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).parent.parent / "docs" / "json.md"
_ROW = re.compile(r"^\| `([a-z ]+)` \| (.+) \|$", re.MULTILINE)
_FIELD = re.compile(r"(?P<name>\w+)(?P<may>\?)?(?:\((?P<inner>[^)]*)\))?")


@cache
def documented() -> Mapping[str, str]:
    """The fields of each verb, as the table has them."""
    table = DOCUMENT.read_text(encoding="utf-8").partition("\n## Fields\n")[2]
    return {verb: cell.strip("`") for verb, cell in _ROW.findall(table)}


def differences(verb: str, document: Mapping[str, Any]) -> list[str]:
    """The fields of a document that are missing or undocumented; for `config show`, whose keys vary, none."""
    if not str(document.get("schema", "")).startswith("spyre-ci/"):
        return ["schema"]
    found = {key: value for key, value in document.items() if key != "schema"}
    text = documented()[verb]
    return [] if verb == "config show" else list(_different(text, found))


def _different(text: str, found: Mapping[str, Any]) -> Iterator[str]:
    fields = {one["name"]: one for one in _FIELD.finditer(text)}
    yield from (f"{name} is undocumented" for name in found.keys() - fields.keys())
    for name, field in fields.items():
        if name not in found:
            if not field["may"]:
                yield f"{name} is missing"
            continue
        value = found[name]
        for one in value if isinstance(value, list) else [value]:
            if field["inner"] and isinstance(one, dict):
                yield from (f"{name}.{inner}" for inner in _different(field["inner"], one))
