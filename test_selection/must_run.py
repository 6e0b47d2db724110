"""The must-run list: the tests behind the models and deployment patterns that releases depend on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from test_selection.catalog import CatalogTest
from test_selection.matching import FIELDS, Masks, Patterns, read_line, read_patterns
from test_selection.yaml_reader import Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class MustRun:
    """Tests that run at every stage, and the model or deployment pattern they serve."""

    serves: str
    line: int
    patterns: Patterns


def read_must_run(row: Reader) -> MustRun:
    """Read one entry of `must_run`.

    Raises:
        SettingsError: a key or value that cannot be taken.
    """
    row.known("serves", *FIELDS)
    patterns = read_patterns(row, FIELDS)
    serves = read_line(row, "serves")
    if not patterns:
        raise row.error("serves", f"{serves!r} names no tests", f"give it one of {', '.join(FIELDS)}")
    return MustRun(serves=serves, line=row.line, patterns=patterns)


def must_run_ids(tests: Iterable[CatalogTest], entries: Sequence[MustRun]) -> list[str]:
    """The ids of the tests an entry names, in the order of the tests.

    Args:
        tests: the tests in scope.
        entries: `Rules.must_run`.
    """
    return must_run_tests(tests, entries)[0]


def must_run_tests(tests: Iterable[CatalogTest], entries: Sequence[MustRun]) -> tuple[list[str], list[int]]:
    """As `must_run_ids`, and how many tests each entry names."""
    ids: list[str] = []
    counts = [0] * len(entries)
    rows = list(tests)
    masks = Masks([one.patterns for one in entries])
    for test, mask in zip(rows, masks.each(rows), strict=True):
        if mask:
            ids.append(test.id)
            for index in range(len(entries)):
                counts[index] += mask >> index & 1
    return ids, counts
