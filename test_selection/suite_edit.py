"""Editing a suite file as text: what is not touched stays byte for byte, comments, order and quotes too.

The YAML is parsed for where things stand; each edit replaces or inserts whole spans of the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from test_selection.suite_model import MANDATORY

_PLAIN = re.compile(r"[A-Za-z_][\w:.]*\w")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Put `text` in the place of what stands from character `start` to `end`."""

    start: int
    end: int
    text: str


class SuiteText:
    """The text of a suite file and where its entries stand in it."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        config = _value(root, "test_suite_config")
        files = _value(config, "files")
        self._files = list(files.value) if isinstance(files, yaml.SequenceNode) else []

    def flip(self, file: int, entry: int) -> list[Change]:
        """Let an entry expect success; nothing where its mode cannot be replaced."""
        mode = _value(self._entry(file, entry), "mode")
        if not isinstance(mode, yaml.ScalarNode):
            return []
        return [Change(start=mode.start_mark.index, end=mode.end_mark.index, text=MANDATORY)]

    def move(self, file: int, entry: int, names: Sequence[str]) -> list[Change]:
        """Put a copy of an entry before it that expects success of `names`, and take those out of it.

        A name stays in the entry where it is the last one left, or stands in no list of its own lines: the
        copy comes first and decides.
        """
        node = self._entry(file, entry)
        if (
            not isinstance(node, yaml.MappingNode)
            or node.flow_style
            or (copy := self._copy(node, names)) is None
        ):
            return []
        start = self._line_start(self._dash(node))
        return [Change(start=start, end=start, text=copy), *self._without(node, names)]

    def add(self, file: int, names: Sequence[str]) -> list[Change]:
        """List tests of a file that no entry names, as tests that have to pass."""
        node = self._files[file]
        if not isinstance(node, yaml.MappingNode) or node.flow_style:
            return []
        tests = _value(node, "tests")
        if isinstance(tests, yaml.SequenceNode) and tests.value and not tests.flow_style:
            at = self._line_start(self._dash(tests.value[0]))
            margin = " " * tests.value[0].start_mark.column
            dash = self.text[at : self._dash(tests.value[0])]
            text = self._entry_text(dash, margin, names)
            return [Change(start=at, end=at, text=text)]
        if isinstance(tests, yaml.SequenceNode) and not tests.value:  # `tests: []`
            indent = " " * (node.start_mark.column + 2)
            text = self._newline + self._entry_text(indent, f"{indent}  ", names)
            return [Change(start=tests.start_mark.index, end=tests.end_mark.index, text=text.rstrip())]
        if tests is None or (isinstance(tests, yaml.ScalarNode) and not tests.value):
            indent = " " * node.start_mark.column
            last_key, last_value = node.value[-1]
            at = self._line_end(max(last_key.end_mark.index, _content_end(last_value)))
            text = self._entry_text(f"{indent}  ", f"{indent}    ", names)
            if tests is not None:  # `tests:` with nothing behind it
                at = self._line_end(tests.end_mark.index)
            else:
                text = f"{indent}tests:{self._newline}{text}"
            return [Change(start=at, end=at, text=self._on_new_line(at, text))]
        return []

    def applied(self, changes: Sequence[Change]) -> str:
        """The text with changes made, which do not overlap."""
        text = self.text
        for change in sorted(changes, key=lambda one: (one.start, one.end), reverse=True):
            text = text[: change.start] + change.text + text[change.end :]
        return text

    @property
    def _newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    def _entry(self, file: int, entry: int) -> yaml.Node | None:
        tests = _value(self._files[file], "tests")
        node: yaml.Node | None = tests.value[entry] if isinstance(tests, yaml.SequenceNode) else None
        return node

    def _entry_text(self, dash: str, margin: str, names: Sequence[str]) -> str:
        lines = [f"{dash}- names:", *(f"{margin}  - {_quoted(name)}" for name in names)]
        lines.append(f"{margin}mode: {MANDATORY}")
        return "".join(line + self._newline for line in lines)

    def _copy(self, node: yaml.MappingNode, names: Sequence[str]) -> str | None:
        """The entry's own lines with other names and another mode; None where they cannot be told apart."""
        dash = self._dash(node)
        start = self._line_start(dash)
        margin = " " * node.start_mark.column
        kept: list[str] = []
        for key, value in node.value:
            if key.value in {"names", "mode"}:
                continue
            at, end = self._line_start(key.start_mark.index), self._line_end(_content_end(value))
            line = self.text[at:end]
            if key is node.value[0][0]:  # it stands behind the dash
                line = margin + self.text[key.start_mark.index : end]
            if "&" in line and re.search(r"[\s\[,]&\w", line):
                return None  # an anchor that stands twice is another anchor
            kept.append(line if line.endswith("\n") else line + self._newline)
        return self._entry_text(self.text[start:dash], margin, names) + "".join(kept)

    def _without(self, node: yaml.Node, names: Sequence[str]) -> list[Change]:
        """Take names out of an entry's list, a line a name."""
        listed = _value(node, "names")
        if not isinstance(listed, yaml.SequenceNode) or listed.flow_style:
            return []
        gone = [one for one in listed.value if one.value.strip() in names and self._alone(one)]
        if len(gone) == len(listed.value):
            gone = gone[1:]
        found = []
        for one in gone:
            start, end = self._line_start(one.start_mark.index), self._line_end(one.end_mark.index)
            found.append(Change(start=start, end=end, text=""))
        return found

    def _alone(self, node: yaml.Node) -> bool:
        """Whether an item has its line for itself: nothing but its dash before, a comment at most behind."""
        before = self.text[self._line_start(node.start_mark.index) : node.start_mark.index]
        behind = self.text[node.end_mark.index : self._line_end(node.end_mark.index)].strip()
        whole = node.start_mark.line == node.end_mark.line
        return whole and before.strip() == "-" and (not behind or behind.startswith("#"))

    def _dash(self, node: yaml.Node) -> int:
        return self.text.rindex("-", 0, node.start_mark.index)

    def _line_start(self, at: int) -> int:
        return self.text.rfind("\n", 0, at) + 1

    def _line_end(self, at: int) -> int:
        """Behind the line's end; `at` may stand at the start of the next line already."""
        if at and self.text[at - 1] == "\n":
            return at
        end = self.text.find("\n", at)
        return len(self.text) if end < 0 else end + 1

    def _on_new_line(self, at: int, text: str) -> str:
        return text if at == 0 or self.text[at - 1] == "\n" else self._newline + text


def _value(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for one, value in node.value if one.value == key), None)


def _content_end(node: yaml.Node) -> int:
    """Where the last scalar of a node ends: a block ends only where the next thing begins."""
    if isinstance(node, yaml.MappingNode) and node.value and not node.flow_style:
        return _content_end(node.value[-1][1]) or int(node.value[-1][0].end_mark.index)
    if isinstance(node, yaml.SequenceNode) and node.value and not node.flow_style:
        return _content_end(node.value[-1])
    return int(node.end_mark.index)


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else "'" + name.replace("'", "''") + "'"
