"""What became of a component's tests: what their results and the way their container ended say; pure."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ci.core.text import counted, one_line, span
from ci.image.component_tests import EMULATED, NO_DEVICE, ComponentTests
from ci.image.container import Ended

# pytest's own for: nothing was collected.
NO_TESTS = 5
_BY_SIGNAL = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """A test that failed.

    Attributes:
        name: class and name.
        message: why, in a line.
    """

    name: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the results of a container hold.

    Attributes:
        passed: tests that did.
        failed: tests with a failure or an error.
        skipped: tests that were.
        failing: the first of those that failed.
        files: how many results could be read.
        damaged: why each of the others could not, by path.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failing: tuple[Failing, ...] = ()
    files: int = 0
    damaged: Mapping[str, str]

    @property
    def tests(self) -> int:
        """All of them."""
        return self.passed + self.failed + self.skipped

    def __str__(self) -> str:
        return f"{self.passed:,} passed, {self.failed:,} failed, {self.skipped:,} skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a component's tests.

    Attributes:
        tests: which ones.
        found: what their results hold.
        problems: what is wrong besides tests that failed, a sentence each.
        seconds: they took.
        exit_code: of their lines; None: the container did not come to its end.
        last: lines they said.
    """

    tests: ComponentTests
    found: Found
    problems: tuple[str, ...]
    seconds: float
    exit_code: int | None
    last: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether an image may be pushed."""
        return not self.problems and not self.found.failed

    def __str__(self) -> str:
        said = f"{self.tests.title}: {self.found} in {span(self.seconds)}"
        return "; ".join([said, *(one_line(problem, 500) for problem in self.problems)])


def problems_of(tests: ComponentTests, ended: Ended, found: Found) -> list[str]:
    """What is wrong besides tests that failed: an end from outside, results that are lost or do not fit it.

    Args:
        tests: whose.
        ended: how their container ended.
        found: what their results hold.
    """
    problems = [f"{path} {why}" for path, why in sorted(found.damaged.items())]
    forced = _forced(tests, ended)
    if forced:
        return [forced, *problems]
    if ended.exit_code == NO_DEVICE and tests.environment.get("SPYRE_CI_TEST_DEVICE") == EMULATED:
        told = (
            "the emulated device is spyre-ci's, and the image for tests has none: name spyre-ci under "
            "`development`, or give cards by the setting image.devices"
        )
        return [told, *problems]
    return [*_of_results(tests, ended, found), *problems]


def _forced(tests: ComponentTests, ended: Ended) -> str:
    """Who ended them; empty: they came to their own end."""
    if ended.timed_out:
        return f"took longer than {span(tests.timeout_s)} and was ended (test_minutes)"
    if not ended.exit_code:
        return ""
    if ended.out_of_memory:
        limit = "" if tests.memory_bytes is None else f", of which it had {tests.memory_bytes / 2**30:g} GiB"
        return f"ran out of memory{limit} (exit code {ended.exit_code})"
    if ended.exit_code > _BY_SIGNAL:
        return f"was killed by {_signal(ended.exit_code - _BY_SIGNAL)} (exit code {ended.exit_code})"
    return ""


def _of_results(tests: ComponentTests, ended: Ended, found: Found) -> Iterable[str]:
    code = ended.exit_code
    if not found.tests and not found.damaged:
        if code == NO_TESTS:
            yield f"ran no tests (exit code {code})"
        elif code:
            told = "without a test in its JUnit" if found.files or tests.promises_junit else "with no JUnit"
            yield f"ended with exit code {code}, {told}"
        elif found.files:
            yield "ran no tests: its JUnit holds none"
        elif tests.promises_junit:
            yield "wrote no JUnit into $JUNIT_DIR"
    elif code and not found.failed:
        yield f"ended with exit code {code}, though no test of its JUnit failed"
    elif not code and found.failed:
        yield f"ended with exit code 0, though {counted(found.failed, 'test')} of its JUnit failed"
    if tests.kind == "device" and found.skipped and found.skipped == found.tests:
        yield f"skipped all of its {counted(found.skipped, 'test')}: none saw a device"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def failure_text(outcomes: Sequence[Outcome], *, most: int = 20) -> str:
    """What failed, for the end of an error: counts, a line a problem, and the first failing tests.

    Args:
        outcomes: of all tests that ran.
        most: tests that are named.
    """
    bad = [one for one in outcomes if not one.is_good]
    tests = sum(one.found.tests for one in outcomes)
    failed = sum(one.found.failed for one in outcomes)
    count = (
        f"{failed or 'none'} of {counted(tests, 'test')} failed" if tests else "no result of a test is known"
    )
    lines = [f"tests did not pass, of {', '.join(one.tests.title for one in bad)}: {count}"]
    lines += [f"{one.tests.title} {one_line(problem, 500)}" for one in bad for problem in one.problems]
    named = [(one.tests.title, failing) for one in bad for failing in one.found.failing]
    lines += [
        f"{title} {one_line(test.name, 200)}: {one_line(test.message, 200)}" for title, test in named[:most]
    ]
    if failed > len(named[:most]):
        lines.append(f"… and {failed - len(named[:most]):,} more")
    return "\n  | ".join(lines)
