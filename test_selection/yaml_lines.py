"""Reading YAML as data while keeping the line of every key, so that errors can point at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from test_selection.errors import MissingInputError, SettingsError
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
        walk = _Walk(path)
        walk.read(node, ())
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
    return Document(path=path, content=content, lines=walk.lines)


class _Walk:
    """Notes the line of every key and item."""

    def __init__(self, path: Path) -> None:
        self.lines: dict[Path_, int] = {}
        self._path = path

    def read(self, node: yaml.Node, at: Path_) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                here = (*at, str(key.value))
                line = key.start_mark.line + 1
                if here in self.lines:
                    # YAML lets the last one win in silence, and the first would be lost.
                    raise SettingsError(
                        f"key {'.'.join(here)!r} stands twice, first on line {self.lines[here]}",
                        where=f"{self._path}:{line}",
                        remedy="keep one of them",
                    )
                self._note(here, line)
                self.read(value, here)
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                here = (*at, str(index))
                self._note(here, value.start_mark.line + 1)
                self.read(value, here)
        elif node.tag.endswith(":timestamp"):
            self._check_day(node)

    def _check_day(self, node: yaml.Node) -> None:
        """Refuse a day no calendar has, which YAML's own error does not place."""
        try:
            yaml.constructor.SafeConstructor().construct_object(node)
        except (ValueError, OverflowError) as error:
            where = f"{self._path}:{node.start_mark.line + 1}"
            raise SettingsError(
                f"{node.value!r} is no day: {error}", where=where, remedy="write a day such as 2026-12-31"
            ) from error

    def _note(self, here: Path_, line: int) -> None:
        if len(self.lines) >= MAX_NODES:
            raise SettingsError(
                f"holds more than {MAX_NODES:,} values, aliases counted each time",
                where=f"{self._path}:{line}",
                remedy="split the file, or name fewer aliases of aliases",
            )
        self.lines[here] = line


def _not_yaml(error: Exception, path: Path) -> SettingsError:
    mark = getattr(error, "problem_mark", None)
    said = getattr(error, "problem", None) or str(error) or type(error).__name__
    where = f"{path}:{mark.line + 1}" if mark else str(path)
    return SettingsError(f"is not YAML: {said}", where=where, remedy="mend the syntax on that line")
