"""Where a value stands in a TOML text, by way of tomlkit, which keeps everything else as it is; pure."""

from __future__ import annotations

from collections.abc import MutableMapping, MutableSequence
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Float, Integer, String

from ci.core.errors import SettingsError

_REMEDY = 'give the pin one place of its own: `key = "version"`'


def span(path: Path, text: str, key: str) -> tuple[int, int]:
    """Begin and end of a key's value, quotes included.

    Args:
        path: that errors name.
        text: of the file.
        key: dotted; a number is an item of a list.

    Raises:
        SettingsError: it is not TOML, which also forbids a key that stands twice; or the key is missing, or
            no text.
    """
    try:
        document = tomlkit.parse(text)
    except (TOMLKitError, RecursionError) as error:
        line = getattr(error, "line", None)
        where = f"{path}:{line}" if line else path
        raise SettingsError(f"is not TOML: {error}", where=where, remedy="mend it there") from error
    *above, last = key.split(".")
    holder: Any = document
    for part in above:
        holder = _below(holder, part, path, key)
    value = _below(holder, last, path, key)
    if not isinstance(value, String | Float | Integer):
        raise SettingsError(f"{key} is no text", where=path, remedy=_REMEDY)
    mark = "-"
    while mark in text:
        mark += "-"
    holder[_index(holder, last)] = tomlkit.string(mark)
    marked = tomlkit.dumps(document)
    before, _, after = marked.partition(f'"{mark}"')
    if not (text.startswith(before) and text.endswith(after) and len(before) + len(after) < len(text)):
        raise SettingsError(f"{key} cannot be changed without changing more", where=path, remedy=_REMEDY)
    return len(before), len(text) - len(after)


def _below(holder: Any, part: str, path: Path, key: str) -> Any:
    try:
        return holder[_index(holder, part)]
    except (KeyError, IndexError) as error:
        raise SettingsError(
            f"{key}: there is no such key", where=path, remedy="check the pin's key, and the file"
        ) from error


def _index(holder: Any, part: str) -> str | int:
    if isinstance(holder, MutableMapping):
        return part
    if isinstance(holder, MutableSequence) and part in map(str, range(len(holder))):
        return int(part)
    raise KeyError(part)
