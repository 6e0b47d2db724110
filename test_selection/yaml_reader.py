"""Reading YAML as typed values, so that each mistake is told with its file, line and key."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from test_selection.errors import MissingInputError, SettingsError, did_you_mean
from test_selection.files import read_bounded

Path_ = tuple[str, ...]
# Aliases of aliases make a small file mean billions of values; the largest suite known has 30,000.
MAX_NODES = 500_000
MAX_BYTES = 64 << 20
# A scalar with a tag it does not fit (`!!bool maybe`) comes out of the constructor as whatever it meets.
_BROKEN = (yaml.YAMLError, RecursionError, ValueError, LookupError, TypeError, AttributeError, OverflowError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A YAML document: its content as plain values, and the line of each key and list item by path."""

    path: Path
    content: Mapping[str, Any]
    lines: Mapping[Path_, int] = field(default_factory=dict)

    @classmethod
    def empty(cls, path: Path) -> Document:
        """The document of a file that is not there."""
        return cls(path=path, content={})

    def line(self, location: Sequence[str | int]) -> int | None:
        """The line (from 1) of a key, or of the nearest one above it that stands in the file."""
        parts = tuple(str(part) for part in location)
        while parts:
            if parts in self.lines:
                return self.lines[parts]
            parts = parts[:-1]
        return None

    def place(self, location: Sequence[str | int]) -> str:
        """`file:line` of a key."""
        line = self.line(location)
        return f"{self.path}:{line}" if line else str(self.path)


def load_document(path: Path) -> Document:
    """Read one YAML mapping.

    Raises:
        MissingInputError: there is no such file.
        SettingsError: it is not YAML, not a mapping, or a key stands twice.
    """
    try:
        text = read_bounded(path, MAX_BYTES).decode("utf-8")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise MissingInputError("there is no such file", where=path, remedy="check the path") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"is not UTF-8: {error}", where=path, remedy="save it as UTF-8") from error
    return parse_document(path, text)


def parse_document(path: Path, text: str) -> Document:
    """Read one YAML mapping from its text; `path` is what errors name.

    Raises:
        SettingsError: it is not YAML, not a mapping, or a key stands twice.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is None:
            return Document.empty(path)
        lines: dict[Path_, int] = {}
        _note_lines(node, (), lines, path)
        content = yaml.constructor.SafeConstructor().construct_document(node)
    except SettingsError:
        raise
    except _BROKEN as error:
        raise _not_yaml(error, path) from error
    if not isinstance(content, dict):
        raise SettingsError(
            f"holds a {type(content).__name__}, not a table of keys",
            where=f"{path}:1",
            remedy="start it with `key: value` lines",
        )
    return Document(path=path, content=content, lines=lines)


def _note_lines(node: yaml.Node, at: Path_, lines: dict[Path_, int], path: Path) -> None:
    """Note the line of every key and item below a node."""
    if isinstance(node, yaml.MappingNode):
        rows = [(str(key.value), key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        rows = [(str(index), value, value) for index, value in enumerate(node.value)]
    else:
        if node.tag.endswith(":timestamp"):
            _check_day(node, path)
        return
    for name, marked, value in rows:
        here, line = (*at, name), marked.start_mark.line + 1
        if here in lines:
            # YAML lets the last one win in silence, and the first would be lost.
            raise SettingsError(
                f"key {'.'.join(here)!r} is there twice, first on line {lines[here]}",
                where=f"{path}:{line}",
                remedy="keep one of them",
            )
        if len(lines) >= MAX_NODES:
            raise SettingsError(
                f"holds more than {MAX_NODES:,} values, aliases counted each time",
                where=f"{path}:{line}",
                remedy="split the file, or name fewer aliases of aliases",
            )
        lines[here] = line
        _note_lines(value, here, lines, path)


def _check_day(node: yaml.Node, path: Path) -> None:
    """Refuse a day no calendar has, which YAML's own error does not place."""
    try:
        yaml.constructor.SafeConstructor().construct_object(node)
    except (ValueError, OverflowError) as error:
        raise SettingsError(
            f"{node.value!r} is not a date: {error}",
            where=f"{path}:{node.start_mark.line + 1}",
            remedy="write a date such as 2026-12-31",
        ) from error


def _not_yaml(error: Exception, path: Path) -> SettingsError:
    mark = getattr(error, "problem_mark", None)
    said = getattr(error, "problem", None) or str(error) or type(error).__name__
    where = f"{path}:{mark.line + 1}" if mark else str(path)
    return SettingsError(f"is not YAML: {said}", where=where, remedy="fix the syntax on that line")


class Reader:
    """One table of a document and where it stands in it."""

    def __init__(self, document: Document, at: Sequence[str | int], content: Mapping[str, Any]) -> None:
        self.document = document
        self.at = tuple(at)
        self.content = content

    @classmethod
    def load(cls, path: Path) -> Reader:
        """The outermost table of a file.

        Raises:
            MissingInputError: there is no such file.
            SettingsError: it is not YAML, not a mapping, or a key stands twice.
        """
        document = load_document(path)
        return cls(document, (), document.content)

    @property
    def line(self) -> int:
        """Where the table begins in its file, from 1; 0 for what does not stand in it."""
        return self.document.line(self.at) or 0

    def line_of(self, key: str | int) -> int:
        """The line of a key, from 1."""
        return self.document.line((*self.at, key)) or 0

    def error(self, key: str | int, what: str, remedy: str) -> SettingsError:
        """A mistake under `key` of this table."""
        return SettingsError(what, where=self.document.place((*self.at, key)), remedy=remedy)

    def known(self, *keys: str) -> None:
        """Refuse every key but these."""
        for key in self.content:
            if key not in keys:
                remedy = did_you_mean(str(key), keys, f"known keys: {', '.join(keys)}")
                raise self.error(str(key), f"unknown key {str(key)!r}", remedy)

    def text(self, key: str, *, default: str | None = None) -> str:
        """Text that is not empty, or the default where the key is absent."""
        if key not in self.content and default is not None:
            return default
        return self._text(key, self.content.get(key))

    def texts(self, key: str) -> list[str]:
        """A list of texts; a single one may stand by itself."""
        value = self.content.get(key, [])
        return [self._text(key, one) for one in (value if isinstance(value, list) else [value])]

    def choice(self, key: str, known: Sequence[str], default: str | None = None) -> str:
        """One of a few words; the default where the key is absent."""
        value = self.text(key, default=default)
        if value not in known:
            hint = did_you_mean(value, known, "")
            raise self.error(key, f"{key} is {value!r}", f"{hint} known: {', '.join(known)}".lstrip())
        return value

    def table(self, key: str, *, required: bool = False) -> Reader:
        """A table; empty where the key is absent and not required."""
        value = self.content.get(key)
        if value is None and not required:
            value = {}
        if not isinstance(value, dict):
            raise self.error(key, f"{key} is {value!r}, not a table of keys", f"write keys under `{key}:`")
        return Reader(self.document, (*self.at, key), value)

    def rows(self, key: str, named_by: str | None = None) -> list[Reader]:
        """A list of tables; with `named_by`, text in place of a table stands for that key alone."""
        value = self.content.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(key, f"{key} is {value!r}, not a list", f"write `- ` items under `{key}:`")
        found = []
        for index, one in enumerate(value):
            row = {named_by: one} if named_by and isinstance(one, str) else one
            if not isinstance(row, dict):
                place = Reader(self.document, (*self.at, key), {})
                raise place.error(index, f"{key} holds {one!r}, not a table of keys", "write `key: value`")
            found.append(Reader(self.document, (*self.at, key, index), row))
        return found

    def flag(self, key: str) -> bool:
        """True or false; false where the key is absent."""
        value: Any = self.content.get(key, False)
        if not isinstance(value, bool):
            raise self.error(key, f"{key} is {value!r}, not true or false", f"write `{key}: true`")
        return value

    def number(self, key: str) -> float:
        """A finite number of 0 or more, also one that YAML took for text."""
        value = self.content[key]
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not 0 <= number < math.inf:
            raise self.error(key, f"{key} is {value!r}, not a number of 0 or more", "write it as 0.001")
        return number

    def _text(self, key: str, value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, f"{key} is {value!r}, not text", f"give {key} as text, quoted if need be")
        return value.strip()
