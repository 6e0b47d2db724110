"""What became of a component's tests, and the JUnit that came out of its container, put where people find it.

What a container wrote is another's word. A file that is no whole JUnit is kept apart; that, and what no file
says (killed, out of time, nothing written), stands in one of ours.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import junitparser

from ci.core.containers import Ended
from ci.core.errors import BadFileError, UsageError
from ci.core.process import signal_name
from ci.core.text import clean, counted, one_line, plain, span
from ci.image.component_tests import EMULATED, NO_DEVICE, ComponentTests
from ci.record.junit import Counts
from test_selection.files import atomic_writer, write_json

_BY_SIGNAL = 128
KIND = "image-tests"
# Says that a folder is one of ours, which the next results of the same tests take the place of.
NOTE = "outcome.json"
OURS = "spyre-ci.xml"
MOST_NAMED = 20


@dataclass(slots=True, kw_only=True)
class Found:
    """What the results of a container hold.

    Attributes:
        counts: of tests, by what became of them.
        files: how many results could be read.
        damaged: why each of the others could not, by path.
    """

    counts: Counts = field(default_factory=Counts)
    files: int = 0
    damaged: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a component's tests.

    Attributes:
        tests: which ones.
        found: what their results hold.
        problems: what is wrong besides tests that failed, a sentence each.
        seconds: they took.
        ended: how their container did; None: it did not come to its end.
    """

    tests: ComponentTests
    found: Found
    problems: Sequence[str]
    seconds: float
    ended: Ended | None

    @property
    def is_good(self) -> bool:
        """Whether an image may be pushed."""
        return not self.problems and not self.found.counts.failed

    def __str__(self) -> str:
        said = f"{self.tests.title}: {self.found.counts} in {span(self.seconds)}"
        return "; ".join([said, *(one_line(problem, 500) for problem in self.problems)])


def problems_of(tests: ComponentTests, ended: Ended, found: Found) -> Iterator[str]:
    """What is wrong besides tests that failed: an end from outside, results that are lost or do not fit it.

    Args:
        tests: whose.
        ended: how their container ended.
        found: what their results hold.
    """
    code = ended.exit_code
    if ended.timed_out:
        yield f"took longer than {span(tests.timeout_s)} and was ended (test_minutes)"
    elif code and ended.out_of_memory:
        limit = "" if tests.memory_bytes is None else f", of which it had {tests.memory_bytes / 2**30:g} GiB"
        yield f"ran out of memory{limit} (exit code {code})"
    elif code > _BY_SIGNAL:
        yield f"was killed by {signal_name(code - _BY_SIGNAL)} (exit code {code})"
    elif code == NO_DEVICE and tests.environment.get("SPYRE_CI_TEST_DEVICE") == EMULATED:
        yield (
            "the emulated device is spyre-ci's, and the image for tests has none: name spyre-ci under "
            "`development`, or give cards by the setting image.devices"
        )
    else:
        yield from _misfits(tests, code, found)
    yield from (f"{path} {why}" for path, why in sorted(found.damaged.items()))


def _misfits(tests: ComponentTests, code: int, found: Found) -> Iterator[str]:
    """What in the results does not fit the exit code, or the tests."""
    counts = found.counts
    if code and not counts.failed and not (found.damaged and not counts.tests):
        told = "though no test of its JUnit failed" if counts.tests else "without a test in JUnit"
        yield f"ended with exit code {code}, {told}"
    elif not code and counts.failed:
        yield f"ended with exit code 0, though {counted(counts.failed, 'test')} of its JUnit failed"
    elif not counts.tests and not found.damaged and (found.files or tests.promises_junit):
        yield "ran no tests: its JUnit holds none" if found.files else "wrote no JUnit into $JUNIT_DIR"
    if tests.kind == "device" and counts.skipped and counts.skipped == counts.tests:
        yield f"skipped all of its {counted(counts.skipped, 'test')}: none saw a device"


def failure_text(bad: Sequence[Outcome]) -> str:
    """What failed, for the end of an error: a line an outcome, and the first failing tests.

    Args:
        bad: those that are not good.
    """
    named = [f"{one.tests.title} {test}" for one in bad for test in one.found.counts.failing][:MOST_NAMED]
    lines = [f"tests did not pass: {', '.join(one.tests.title for one in bad)}", *map(str, bad), *named]
    if (more := sum(one.found.counts.failed for one in bad) - MOST_NAMED) > 0:
        lines.append(f"… and {more:,} more")
    return "\n  | ".join(lines)


def read_results(folder: Path) -> Found:
    """Read the JUnit files of a folder, of any runner.

    Args:
        folder: what was taken out of a container; may be missing.
    """
    found = Found()
    for path in sorted(path for path in folder.rglob("*.xml") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        try:
            found.counts.add(path, name=name, most_named=MOST_NAMED)
            found.files += 1
        except BadFileError as error:
            found.damaged[clean(name)] = one_line(error.what, 500)
    return found


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
    found, ended = outcome.found, outcome.ended
    note = {
        "component": outcome.tests.component,
        "kind": outcome.tests.kind,
        "good": outcome.is_good,
        "exit_code": ended.exit_code if ended else None,
        "seconds": round(outcome.seconds, 3),
        "passed": found.counts.passed,
        "failed": found.counts.failed,
        "skipped": found.counts.skipped,
        "problems": [one_line(problem, 2000) for problem in outcome.problems],
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / NOTE, KIND, note)
    for path in sorted(path for path in taken.rglob("*") if path.is_file()):
        name = path.relative_to(taken)
        copy = folder / ("damaged" if clean(name.as_posix()) in found.damaged else "junit") / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    if outcome.problems or not found.files:
        _write_junit(folder / OURS, outcome)


def _write_junit(path: Path, outcome: Outcome) -> None:
    """Write a JUnit file of ours: one test case, with an error where there are problems."""
    title = outcome.tests.title
    case = junitparser.TestCase(clean(title), clean(outcome.tests.component), round(outcome.seconds, 3))
    if outcome.problems:
        error = junitparser.Error(one_line("; ".join(outcome.problems), 2000), "spyre-ci")
        error.text = plain("\n".join(outcome.ended.last if outcome.ended else ()))
        case.result = [error]
    suite = junitparser.TestSuite(clean(title))
    suite.add_testcases([case])
    with atomic_writer(path) as stream:
        suite.write(stream)
