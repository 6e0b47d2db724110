"""Rows of a suite file: operators, dtypes and modules with what is said of them, flags and patterns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from test_selection.dtypes import ALIASES, DTYPES, dtype_name
from test_selection.selection import Precision
from test_selection.suite_model import Edit, Named
from test_selection.yaml_reader import Reader

# What rows of operators and modules carry for the device's own test base: inputs to build, tags to print.
_INPUTS = ("sample_inputs_func", "constructor_inputs", "forward_inputs", "module_path", "tags", "labels")
_ROW = ("name", "description", "precision", "force_xfail", "dtypes", *_INPUTS)
_Row = TypeVar("_Row")


def read_edit(
    row: Reader, name_of: Callable[[str], str], check: Callable[[Reader], None] | None = None
) -> Edit:
    """What is included and excluded."""
    row.known("include", "exclude")
    edit = Edit(
        include=read_named(row.rows("include", "name"), name_of, check),
        exclude=read_named(row.rows("exclude", "name"), name_of, check),
    )
    if both := sorted(edit.include.keys() & edit.exclude.keys()):
        written = edit.exclude[both[0]].written
        raise row.error("exclude", f"{written!r} is both included and excluded", "keep it in one of them")
    return edit


def read_named(
    rows: Iterable[Reader], name_of: Callable[[str], str], check: Callable[[Reader], None] | None = None
) -> dict[str, Named]:
    """Rows by name; the first of a name counts, for operators are listed once for every set of inputs."""
    found: dict[str, Named] = {}
    for row in rows:
        row.known(*_ROW)
        if check is not None:
            check(row)
        written = row.text("name")
        dtypes = row.rows("dtypes", "name")
        one = Named(
            name=name_of(written),
            written=written,
            line=line_of(row, "name"),
            description=read_description(row),
            precision=read_precision(row),
            force_xfail=read_flag(row, "force_xfail"),
            dtypes=read_named(dtypes, dtype_name, refuse_strange_dtype),
            located=bool(row.content.get("module_path")),
        )
        found.setdefault(one.name, one)
    return found


def refuse_strange_dtype(row: Reader) -> None:
    """Refuse a dtype torch does not have, with the one that is meant."""
    name = row.text("name")
    if dtype_name(name) not in DTYPES:
        row.choice("name", sorted({*DTYPES, *ALIASES}))


def read_precision(row: Reader) -> Precision | None:
    """Tolerances; None where none are given."""
    found = row.precision() if row.content.get("precision") is not None else {}
    return Precision(atol=found.get("atol"), rtol=found.get("rtol")) if found else None


def read_flag(row: Reader, key: str) -> bool:
    """A key that is true or false; false where it is missing."""
    value: Any = row.content.get(key, False)
    if not isinstance(value, bool):
        raise row.error(key, f"{key} is {value!r}, not true or false", f"write `{key}: true`")
    return value


def read_description(row: Reader) -> str:
    """A description; one that is left empty says nothing."""
    value = row.content.get("description")
    return "" if value is None or value == "" else row.text("description")


def line_of(row: Reader, key: str) -> int:
    """The line a key stands on."""
    return row.document.line((*row.at, key)) or 0


def compiled(row: Reader, key: str, make: Callable[[], _Row], seen: str | None = None) -> _Row:
    """`make()`, a pattern; one that cannot be read is told with its place."""
    try:
        return make()
    except (re.error, RecursionError, OverflowError) as error:
        written = row.content.get(key) if seen is None else seen
        raise row.error(
            key, f"{key} holds {written!r}, a pattern that cannot be read: {error}", "mend it"
        ) from error
