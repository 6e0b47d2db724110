"""Taking typed values out of a YAML document, each mistake with its file, line and key."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from test_selection.errors import SettingsError
from test_selection.yaml_lines import Document, load_document


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

    def error(self, key: str | int, what: str, remedy: str) -> SettingsError:
        """A mistake under `key` of this table."""
        return SettingsError(what, where=self.document.place((*self.at, key)), remedy=remedy)

    def known(self, *keys: str) -> None:
        """Refuse every key but these."""
        for key in self.content:
            if key not in keys:
                close = difflib.get_close_matches(str(key), keys, n=1)
                remedy = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(keys)}"
                raise self.error(str(key), f"unknown key {str(key)!r}", remedy)

    def kept(self, *keys: str) -> dict[str, Any]:
        """Those of the keys that are there, as they stand."""
        return {key: self.content[key] for key in keys if key in self.content}

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
            close = difflib.get_close_matches(value, known, n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise self.error(key, f"{key} is {value!r}", f"{hint}known: {', '.join(known)}")
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

    def precision(self) -> dict[str, float]:
        """The `precision` of this table as numbers: YAML 1.1 takes `1e-3` (no dot) for text."""
        row = self.table("precision")
        row.known("atol", "rtol")
        return {key: row.number(key) for key, value in row.content.items() if value is not None}

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
