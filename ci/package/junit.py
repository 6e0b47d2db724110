"""Counting what a test runner's JUnit says; the file is another's word, so entities are refused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ci.core.errors import BadFileError
from ci.core.text import counted, one_line
from ci.record.junit import case_of, junit_cases

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
        with path.open("rb") as stream:
            for element, _ in junit_cases(stream, name=path.name):
                case = case_of(element)
                counts[case.became] += 1
                if case.became == "failed" and len(failing) < MOST_FAILED:
                    failing.append(one_line(f"{case.name}: {case.message}" if case.message else case.name))
    except (OSError, BadFileError) as error:
        raise BadFileError(
            f"is no JUnit that can be read: {error.what if isinstance(error, BadFileError) else error}",
            where=path,
            remedy="look at what the tests printed: their process ended before it wrote its results",
        ) from error
    return Counts(**counts, failing=tuple(failing))
