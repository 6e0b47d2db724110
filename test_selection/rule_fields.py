"""Rows of patterns over the fields of a test, and which rows match it: as bits, for a million tests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from test_selection.catalog import CatalogTest
from test_selection.patterns import compile_pattern
from test_selection.yaml_reader import Reader

FIELDS = ("file", "class", "template", "op", "dtype", "marker")
_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
Value = str | tuple[str, ...] | None


class Searches(Protocol):
    """What tells whether it matches a text: a compiled pattern, or the list of what a device declares."""

    def search(self, string: str, /) -> object | None:
        """Something where it matches, None where it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One pattern as it is written, and what it was compiled to."""

    text: str
    pattern: Searches


Patterns = Mapping[str, tuple[Wanted, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """What every row of a rules file has: whom it matches, and why.

    Attributes:
        code: the reason, short, for tables and counts.
        text: the reason, for people.
        issue: a link, where there is one.
        line: where it stands in its file, from 1; 0 where that is not known.
        patterns: by field; a row matches where each field it names matches one of that field's patterns.
    """

    code: str
    text: str
    issue: str = ""
    line: int = 0
    patterns: Patterns = field(default_factory=dict)


def read_patterns(row: Reader, fields: Sequence[str]) -> dict[str, tuple[Wanted, ...]]:
    """The patterns of those fields that a row of a YAML file names.

    Raises:
        SettingsError: an empty list, or a pattern that cannot be compiled.
    """
    return {name: _wanted(row, name) for name in fields if name in row.content}


def read_reason(row: Reader) -> dict[str, Any]:
    """The fields of a `Reason` but for its patterns.

    Raises:
        SettingsError: one is missing, or the code is more than one word.
    """
    code = row.text("code")
    if not _CODE.fullmatch(code):
        raise row.error("code", f"code is {code!r}", "write letters, digits, `-`, `_` and `.` only")
    issue = row.text("issue", default="")
    return {"code": code, "text": read_line(row, "text"), "issue": issue, "line": row.line}


def read_line(row: Reader, key: str) -> str:
    """Words for people, on one line however the file breaks them."""
    return " ".join(row.text(key).split())


def first_hit(wanted: Iterable[Wanted], value: Value) -> tuple[str, str] | None:
    """The first pattern that matches, as written, and the value it matched; a test without one has none."""
    values = (value,) if isinstance(value, str) else value or ()
    return next(((one.text, text) for one in wanted for text in values if one.pattern.search(text)), None)


def value_of(test: CatalogTest, name: str) -> Value:
    """What a test has in a field of a rule."""
    values: dict[str, Value] = {
        "file": test.file,
        "class": test.cls,
        "template": test.template,
        "op": test.op,
        "dtype": test.dtype,
        "marker": test.markers,
    }
    return values[name]


class Masks:
    """Which of some rows match a test: bit i is set where row i does.

    A row matches where each field it names matches one of that field's patterns; a field it does not name
    is free. A million tests have few values, so each value meets the patterns once.
    """

    def __init__(self, rows: Sequence[Patterns]) -> None:
        self.rows = tuple(rows)
        self._known: dict[tuple[str, Value], int] = {}

    def value(self, name: str, value: Value) -> int:
        """The rows that accept a value in a field."""
        key = (name, value)
        if (known := self._known.get(key)) is None:
            rows = enumerate(self.rows)
            known = sum(1 << i for i, row in rows if name not in row or first_hit(row[name], value))
            self._known[key] = known
        return known

    def test(self, test: CatalogTest) -> int:
        """The rows that match one test."""
        return next(self.each((test,)))

    def each(self, tests: Iterable[CatalogTest]) -> Iterator[int]:
        """The rows that match each of many tests, in their order."""
        of = self.value
        places: dict[tuple[str, str, str], int] = {}
        variants: dict[tuple[str | None, str | None, tuple[str, ...]], int] = {}
        for test in tests:
            place = (test.file, test.cls, test.template)
            if (where := places.get(place)) is None:
                where = of("file", place[0]) & of("class", place[1]) & of("template", place[2])
                places[place] = where
            variant = (test.op, test.dtype, test.markers)
            if (what := variants.get(variant)) is None:
                what = of("op", variant[0]) & of("dtype", variant[1]) & of("marker", variant[2])
                variants[variant] = what
            yield where & what


def bits(mask: int) -> Iterator[int]:
    """The indexes of the bits that are set, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _wanted(row: Reader, name: str) -> tuple[Wanted, ...]:
    texts = row.texts(name)
    if not texts:
        raise row.error(name, f"{name} is an empty list", "give a glob or a /regex/, or leave the key out")
    try:
        return tuple(Wanted(text=one, pattern=compile_pattern(one)) for one in texts)
    except ValueError as error:
        raise row.error(name, f"{name}: {error}", "fix the pattern") from error
