"""Reading YAML as data while keeping the line of every key, so that errors can point at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from test_selection.errors import MissingInputError, SettingsError

Path_ = tuple[str, ...]


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
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise MissingInputError("there is no such file", where=path, remedy="check the path") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"is not UTF-8: {error}", where=path, remedy="save it as UTF-8") from error
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is None:
            return Document.empty(path)
        lines: dict[Path_, int] = {}
        _walk(node, (), lines, path)
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise _not_yaml(error, path) from error
    if not isinstance(content, dict):
        raise SettingsError(
            f"holds a {type(content).__name__}, not a table of keys",
            where=f"{path}:1",
            remedy="start it with `key: value` lines",
        )
    return Document(path=path, content=content, lines=lines)


def _walk(node: yaml.Node, at: Path_, lines: dict[Path_, int], path: Path) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*at, str(key.value))
            line = key.start_mark.line + 1
            if here in lines:
                # YAML lets the last one win in silence, and the first would be lost.
                raise SettingsError(
                    f"key {'.'.join(here)!r} stands twice, first on line {lines[here]}",
                    where=f"{path}:{line}",
                    remedy="keep one of them",
                )
            lines[here] = line
            _walk(value, here, lines, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            here = (*at, str(index))
            lines[here] = value.start_mark.line + 1
            _walk(value, here, lines, path)


def _not_yaml(error: Exception, path: Path) -> SettingsError:
    mark = getattr(error, "problem_mark", None)
    said = getattr(error, "problem", None) or str(error) or type(error).__name__
    where = f"{path}:{mark.line + 1}" if mark else str(path)
    return SettingsError(f"is not YAML: {said}", where=where, remedy="mend the syntax on that line")
