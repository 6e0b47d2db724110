"""The one place of a pin: the version at a key of a YAML or TOML file, read and replaced; pure.

Only the value's own characters change: of all places where the version stands in the text, the one counts
that changes the value at the key and nothing else.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from ci.core.errors import SettingsError
from ci.core.text import escaped

# What indexes and registries call a release; nothing in it means anything to YAML, TOML, Git or a shell.
VERSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+!-]{0,127}")
# What no reader of YAML takes for a number, a day or a truth.
_PLAIN = re.compile(r"v\d.*|\d+(\.\d+){2}.*")
_REMEDY = "keep the pin as `key: version` on a line of its own in a .yaml, .yml or .toml file"


def read_version(path: Path, content: bytes, key: str) -> str:
    """The version at a key.

    Args:
        path: of the file, which says whether it is YAML or TOML; errors name it.
        content: of it.
        key: dotted; a number is an item of a list.

    Raises:
        SettingsError: it is no YAML or TOML, or there is no version at the key.
    """
    holder, last = _holder(path, _document(path, content), key)
    found = str(holder[last])
    if not VERSION.fullmatch(found):
        raise _error(path, f"{key}: {escaped(found)[:200]!r} is not a version on one line")
    return found


def with_version(path: Path, content: bytes, key: str, version: str) -> bytes:
    """The content with another version at a key.

    Args:
        path: as for `read_version`.
        content: of it.
        key: dotted.
        version: that is to stand there.

    Raises:
        SettingsError: as `read_version`; or the version is none, or cannot be replaced alone.
    """
    if not VERSION.fullmatch(version):
        raise _error(path, f"{escaped(version)[:200]!r} is not a version")
    old = read_version(path, content, key)
    wanted = _document(path, content)
    holder, last = _holder(path, wanted, key)
    holder[last] = version
    for made in _replaced(content.decode(), old, version, quoted=path.suffix == ".toml"):
        try:
            same = _document(path, made) == wanted
        except SettingsError:
            continue
        if same:
            return made
    raise _error(path, f"{key} cannot be changed without changing other values")


def _replaced(text: str, old: str, new: str, *, quoted: bool) -> Iterator[bytes]:
    """The text with one mention of a version replaced, for each of them."""
    for found in re.finditer(rf"""(?<![\w.+!'"-])(['"]?){re.escape(old)}\1(?![\w.+!'"-])""", text):
        quote = found[1] or ("" if _PLAIN.fullmatch(new) and not quoted else '"')
        yield f"{text[: found.start()]}{quote}{new}{quote}{text[found.end() :]}".encode()


def _document(path: Path, content: bytes) -> Any:
    """The file's values; numbers as their own digits, so that 2.10 is not 2.1."""
    try:
        text = content.decode()
        if path.suffix == ".toml":
            found = tomllib.loads(text.replace("\r\n", "\n"), parse_float=str)
        elif path.suffix in {".yaml", ".yml"}:
            found = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506  # makes nothing but text
        else:
            raise _error(path, f"a file {path.suffix or 'without a suffix'} is neither YAML nor TOML")
        # What an anchor and its alias share is two values from here on.
        return json.loads(json.dumps(found, default=str))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        said = f"cannot be read as {path.suffix[1:].upper()}: {getattr(error, 'problem', None) or error}"
        where = f"{path}:{mark.line + 1}" if mark else path
        raise SettingsError(said, where=where, remedy="correct this file") from error


def _holder(path: Path, document: Any, key: str) -> tuple[Any, Any]:
    """The mapping or list that holds a key's value, and its key there; a key of the file may have dots."""
    holder, parts = document, key.split(".")
    while parts:
        if isinstance(holder, list) and parts[0] in map(str, range(len(holder))):
            name: Any = int(parts.pop(0))
        else:
            size = next((n for n in range(len(parts), 0, -1) if _has(holder, ".".join(parts[:n]))), 0)
            if not size:
                break
            name, parts = ".".join(parts[:size]), parts[size:]
        if not parts:
            return holder, name
        holder = holder[name]
    raise SettingsError(
        f"{key}: there is no such key", where=path, remedy="check the pin's key, and the file"
    )


def _has(holder: Any, name: str) -> bool:
    return isinstance(holder, dict) and name in holder


def _error(path: Path, what: str) -> SettingsError:
    return SettingsError(what, where=path, remedy=_REMEDY)
