"""What became of a component's tests, and the JUnit that came out of its container, put where people find it.

What a container wrote is another's word. A file that is no whole JUnit is kept apart; that, and what no file
says (killed, out of time, nothing written), stands in one of ours.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import junitparser

from ci.core.containers import Ended
from ci.core.errors import BadFileError, UsageError
from ci.core.process import signal_name
from ci.core.text import clean, counted, one_line, plain, span
from ci.image.component_tests import EMULATED, NO_DEVICE, ComponentTests
from ci.record.junit import case_of, junit_cases
from test_selection.files import atomic_writer, write_json

# pytest's own for: nothing was collected.
NO_TESTS = 5
_BY_SIGNAL = 128
KIND = "image-tests"
# Says that a folder is one of ours, which the next results of the same tests take the place of.
NOTE = "outcome.json"
OURS = "spyre-ci.xml"
MOST_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the results of a container hold.

    Attributes:
        passed: tests that did.
        failed: tests with a failure or an error.
        skipped: tests that were.
        failing: name and message of the first of those that failed.
        files: how many results could be read.
        damaged: why each of the others could not, by path.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failing: tuple[str, ...] = ()
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
        return f"was killed by {signal_name(ended.exit_code - _BY_SIGNAL)} (exit code {ended.exit_code})"
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


def failure_text(bad: Sequence[Outcome]) -> str:
    """What failed, for the end of an error: a line an outcome, and the first failing tests.

    Args:
        bad: those that are not good.
    """
    named = [f"{one.tests.title} {test}" for one in bad for test in one.found.failing][:MOST_NAMED]
    lines = [f"tests did not pass: {', '.join(one.tests.title for one in bad)}", *map(str, bad), *named]
    if (more := sum(one.found.failed for one in bad) - MOST_NAMED) > 0:
        lines.append(f"… and {more:,} more")
    return "\n  | ".join(lines)


def read_results(folder: Path) -> Found:
    """Read the JUnit files of a folder, of any runner.

    Args:
        folder: what was taken out of a container; may be missing.
    """
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    failing: list[str] = []
    damaged: dict[str, str] = {}
    files = 0
    for path in _xml(folder):
        name = path.relative_to(folder).as_posix()
        try:
            with path.open("rb") as stream:
                for element, _ in junit_cases(stream, name=name):
                    case = case_of(element)
                    counts[case.became] += 1
                    if case.became == "failed" and len(failing) < MOST_NAMED:
                        failing.append(one_line(f"{case.name}: {case.message}", 400))
            files += 1
        except BadFileError as error:
            damaged[clean(name)] = one_line(error.what, 500)
    return Found(**counts, failing=tuple(failing), files=files, damaged=damaged)


def results_folder(results: Path, tests: ComponentTests) -> Path:
    """Where the results of some tests stand.

    Raises:
        UsageError: something else stands there, which would be lost.
    """
    folder = results / tests.component / tests.kind
    if folder.exists() and not (folder / NOTE).is_file():
        raise UsageError(
            "stands where results belong, and is none",
            where=folder,
            remedy="name another folder with --results",
        )
    return folder


def put_results(folder: Path, taken: Path, outcome: Outcome) -> None:
    """Put the results of some tests where people find them.

    `junit/` holds what the tests wrote, `damaged/` what of it could not be read, and `spyre-ci.xml` says what
    no file of theirs does.

    Args:
        folder: see `results_folder`.
        taken: what was taken out of the container; may be missing.
        outcome: what became of them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / NOTE, KIND, _note(outcome))
    for path in sorted(path for path in taken.rglob("*") if path.is_file()):
        name = path.relative_to(taken)
        copy = folder / ("damaged" if clean(name.as_posix()) in outcome.found.damaged else "junit") / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    if outcome.problems or not outcome.found.files:
        _write(folder / OURS, outcome)


def _note(outcome: Outcome) -> dict[str, object]:
    found = outcome.found
    return {
        "component": outcome.tests.component,
        "kind": outcome.tests.kind,
        "good": outcome.is_good,
        "exit_code": outcome.exit_code,
        "seconds": round(outcome.seconds, 3),
        "passed": found.passed,
        "failed": found.failed,
        "skipped": found.skipped,
        "problems": [one_line(problem, 2000) for problem in outcome.problems],
    }


def _write(path: Path, outcome: Outcome) -> None:
    """Write a JUnit file of ours: one test case, with an error where there are problems."""
    title = outcome.tests.title
    case = junitparser.TestCase(clean(title), clean(outcome.tests.component), round(outcome.seconds, 3))
    if outcome.problems:
        error = junitparser.Error(one_line("; ".join(outcome.problems), 2000), "spyre-ci")
        error.text = plain("\n".join(outcome.last))
        case.result = [error]
    suite = junitparser.TestSuite(clean(title))
    suite.add_testcases([case])
    with atomic_writer(path) as stream:
        suite.write(stream)


def _xml(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.xml") if path.is_file())
