"""Measured seconds and the file they travel in: tests, set-ups of files, and priors by class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from test_selection.errors import BadFileError
from test_selection.files import read_json, write_json

KIND = "durations"
# Thirty years: more is no measurement.
MAX_S = 1e9
_REQUIRED = ("tests", "files")
_OPTIONAL = ("spread", "classes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """What was measured, in seconds.

    Attributes:
        tests: a test's own time, by canonical id.
        files: what importing and collecting a file takes, by file.
        spread: the 95th percentile of a test's own times, by canonical id; a test may lack one.
        classes: what a whole class took elsewhere, by `file::Class` without the device's suffix.
    """

    tests: Mapping[str, float] = field(default_factory=dict)
    files: Mapping[str, float] = field(default_factory=dict)
    spread: Mapping[str, float] = field(default_factory=dict)
    classes: Mapping[str, float] = field(default_factory=dict)


def write_durations(path: Path, durations: Durations) -> None:
    """Write `durations.json`, compressed where the name ends in `.gz`; optional tables only where filled."""
    content = {"tests": dict(durations.tests), "files": dict(durations.files)}
    optional = {"spread": dict(durations.spread), "classes": dict(durations.classes)}
    write_json(path, KIND, content | {name: rows for name, rows in optional.items() if rows})


def read_durations(path: Path) -> Durations:
    """Read `durations.json[.gz]`.

    Raises:
        MissingInputError: there is no such file.
        BadFileError: a value is not a finite number of seconds, 0 or more.
    """
    content = read_json(path, KIND)
    names = [*_REQUIRED, *(name for name in _OPTIONAL if name in content)]
    return Durations(**{name: _table(content.get(name), name, path) for name in names})


def is_seconds(value: object) -> bool:
    """Whether a value read from JSON is a finite number of seconds, 0 or more."""
    # Infinity and NaN are legal to Python's JSON reader and would poison every plan.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MAX_S


def _table(rows: object, table: str, path: Path) -> dict[str, float]:
    if not isinstance(rows, dict):
        raise BadFileError(
            f"key {table!r} is {type(rows).__name__}, not a table of seconds",
            where=path,
            remedy="export the durations again",
        )
    for name, value in rows.items():
        if not is_seconds(value):
            raise BadFileError(
                f"{table}[{name!r}] is {value!r}, not seconds from 0 to {MAX_S:,.0f}",
                where=path,
                remedy="mend that value or export the durations again",
            )
    return rows
