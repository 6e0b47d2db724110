"""Measured seconds: a test's own time and a file's set-up (import and collect)."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from test_selection.catalog import Catalog, CatalogTest
from test_selection.errors import BadFileError
from test_selection.files import read_json, write_json

KIND = "durations"
# Of a test nobody has timed yet; most of PyTorch's tests end well below it.
UNKNOWN_TEST_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """Seconds by canonical id, and set-up seconds by file."""

    tests: Mapping[str, float] = field(default_factory=dict)
    files: Mapping[str, float] = field(default_factory=dict)


def write_durations(path: Path, durations: Durations) -> None:
    """Write `durations.json`, compressed where the name ends in `.gz`."""
    write_json(path, KIND, {"tests": dict(durations.tests), "files": dict(durations.files)})


def read_durations(path: Path) -> Durations:
    """Read `durations.json[.gz]`.

    Raises:
        MissingInputError: there is no such file.
        BadFileError: a value is not a finite number of seconds, 0 or more.
    """
    content = read_json(path, KIND)
    tables: dict[str, dict[str, float]] = {}
    for table in ("tests", "files"):
        rows = content.get(table)
        if not isinstance(rows, dict):
            raise BadFileError(
                f"key {table!r} is {type(rows).__name__}, not a table of seconds",
                where=path,
                remedy="export the durations again",
            )
        for name, value in rows.items():
            # Infinity and NaN are legal to Python's JSON reader and would poison every plan.
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:  # noqa: PLR2004  # thirty years
                raise BadFileError(
                    f"{table}[{name!r}] is {value!r}, not seconds of 0 or more",
                    where=path,
                    remedy="mend that value or export the durations again",
                )
        tables[table] = rows
    return Durations(tests=tables["tests"], files=tables["files"])


def estimate_tests(tests: Iterable[CatalogTest], durations: Durations) -> dict[str, float]:
    """Seconds expected of each test: its own, else its file's median, else the median of all.

    Args:
        tests: the tests to estimate.
        durations: what was measured.

    Returns:
        Seconds by canonical id.
    """
    wanted = list(tests)
    by_file: dict[str, list[float]] = {}
    for test in wanted:
        if (seconds := durations.tests.get(test.id)) is not None:
            by_file.setdefault(test.file, []).append(seconds)
    medians = {name: statistics.median(values) for name, values in by_file.items()}
    overall = statistics.median(medians.values()) if medians else UNKNOWN_TEST_S
    return {test.id: durations.tests.get(test.id, medians.get(test.file, overall)) for test in wanted}


def estimate_files(catalog: Catalog, durations: Durations) -> dict[str, float]:
    """Set-up seconds expected of each file: measured in a run, else what its collection took."""
    return {name: durations.files.get(name, record.collect_s) for name, record in catalog.files.items()}
