"""Counting what a test runner's JUnit says; the file is another's word, so entities are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

import junitparser
from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import parse

from ci.core.errors import BadFileError
from ci.core.text import counted, one_line

# As many failed tests are named in a record.
MOST_FAILED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What became of tests.

    Attributes:
        passed: how many did.
        failed: how many did not, or broke before or after.
        skipped: how many were, those included that were expected to fail and did.
        failing: the first of those that failed, with why.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failing: tuple[str, ...] = ()

    @property
    def ran(self) -> int:
        """Tests that came to an outcome."""
        return self.passed + self.failed

    @property
    def line(self) -> str:
        """For people."""
        return f"{counted(self.passed, 'test')} passed, {self.failed:,} failed, {self.skipped:,} skipped"

    def as_json(self) -> dict[str, object]:
        """For machines, and the record."""
        return {
            "passed": self.passed,
            "failed": self.failed,
            "skipped": self.skipped,
            "failing": list(self.failing),
        }


def read_counts(path: Path) -> Counts:
    """Count the tests of a JUnit file.

    Raises:
        BadFileError: it is not there, is no JUnit, or declares entities.
    """
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    failing: list[str] = []
    try:
        xml = junitparser.JUnitXml.fromfile(str(path), parse_func=_parse)
        for case in _cases(xml):
            became, why = _became(case)
            counts[became] += 1
            if became == "failed" and len(failing) < MOST_FAILED:
                name = f"{case.classname}::{case.name}" if case.classname else str(case.name)
                failing.append(one_line(f"{name}: {why}" if why else name))
    except (OSError, ParseError, ValueError, junitparser.JUnitXmlError, DefusedXmlException) as error:
        raise BadFileError(
            f"is no JUnit that can be read: {error}",
            where=path,
            remedy="look at what the tests printed: their process ended before it wrote its results",
        ) from error
    return Counts(**counts, failing=tuple(failing))


def _parse(path: str) -> Any:
    return parse(path, forbid_dtd=True)


def _cases(suites: Any) -> Iterator[Any]:
    """Every test case; a suite goes through those within it by itself."""
    for suite in suites:
        yield from suite


def _became(case: Any) -> tuple[str, str]:
    """passed, failed or skipped, and why it failed."""
    bad = [one for one in case.result if isinstance(one, junitparser.Failure | junitparser.Error)]
    if bad:
        return "failed", bad[0].message or ""
    return ("skipped", "") if case.is_skipped else ("passed", "")
