"""`spyre-ci package unit`: a project's tests that need no device, against what was installed of it.

The JUnit that its runner writes is another's word: entities in it are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.config.package_model import PackageTests
from ci.config.run_model import Device
from ci.core.errors import (
    EXIT_INCOMPLETE,
    EXIT_OK,
    EXIT_TEST_FAILED,
    EXIT_USAGE,
    BadFileError,
    CommandError,
    RunInUseError,
    UsageError,
)
from ci.core.locks import alone
from ci.core.process import signal_name, stream_command
from ci.core.text import counted, one_line
from ci.package.bed import Bed, emulate, know_marker, lay, refuse_without_torch, take_sources_away
from ci.package.records import UNIT, Record, forget_record, write_record
from ci.package.text import harmless, harmless_line
from ci.package.wiring import Bench
from ci.record.junit import case_of, junit_cases
from test_selection.files import write_text

_FOLDERS = ("tests", "test")
# As many failed tests are named in a record.
MOST_FAILED = 100
JUNIT_FILE = "unit.xml"
_DEVICE_PLUGIN = "ci.device.pytest_plugin"
# pytest's exit codes that are no outcome of tests: see pytest.ExitCode.
_INTERRUPTED, _INTERNAL, _USAGE, _NOTHING = 2, 3, 4, 5
_WHY = {
    _INTERRUPTED: "pytest stopped early: a file could not be collected, or the run was interrupted",
    _INTERNAL: "pytest itself broke",
    _USAGE: "pytest does not take its arguments",
    _NOTHING: "no test was collected",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a project's tests.

    Attributes:
        counts: by outcome; None where there are no results.
        pytest_code: what pytest ended with, below 0 a signal's number; None: it was ended.
        problem: why this is neither a pass nor a failed test; empty where it is one.
        arguments: what pytest was told.
        emulated: whether the emulated device was there.
    """

    counts: Counts | None
    pytest_code: int | None
    problem: str = ""
    arguments: tuple[str, ...] = ()
    emulated: bool = False

    @property
    def exit_code(self) -> int:
        """Of the command."""
        if self.pytest_code == _USAGE:
            return EXIT_USAGE
        if self.problem:
            return EXIT_INCOMPLETE
        return EXIT_TEST_FAILED if self.counts and self.counts.failed else EXIT_OK

    @property
    def line(self) -> str:
        """For people."""
        told = [self.counts.line] if self.counts else []
        return "; ".join([*told, *([self.problem] if self.problem else [])])

    def as_json(self) -> dict[str, Any]:
        """For machines, and the record."""
        return {
            "counts": None if self.counts is None else self.counts.as_json(),
            "pytest_exit_code": self.pytest_code,
            "exit_code": self.exit_code,
            "problem": self.problem,
            "arguments": list(self.arguments),
            "emulated": self.emulated,
        }


def run_unit(
    bench: Bench,
    environ: Mapping[str, str],
    given: Sequence[str],
    *,
    keep: bool,
    say: Callable[[str], None],
) -> Outcome:
    """Install the project, run its tests, and note what became of them.

    Args:
        bench: the project.
        environ: the user's variables.
        given: arguments of pytest.
        keep: whether the environment of an earlier time is used again.
        say: takes a line for people.

    Raises:
        RunInUseError: its tests run already.
        NotInstalledError: it cannot be installed.
        UsageError: there are no tests, or the emulated device is wanted without torch.
    """
    work = bench.settings.state_dir / "package" / "unit" / bench.project.canonical
    work.mkdir(parents=True, exist_ok=True)
    if not given:
        forget_record(bench.records, UNIT)
        (bench.records / JUNIT_FILE).unlink(missing_ok=True)
    busy = RunInUseError("this project's tests run already", where=work, remedy="wait for their end")
    with alone(work / "lock", busy):
        outcome = _run(bench, work, environ, given, keep=keep, say=say)
        if not given:
            _record(bench, outcome, work / JUNIT_FILE)
    if given:
        say(f"no record: with arguments of pytest a part may have run; JUnit: {work / JUNIT_FILE}")
    return outcome


def _record(bench: Bench, outcome: Outcome, junit: Path) -> None:
    if junit.is_file():
        write_text(bench.records / JUNIT_FILE, junit.read_text(encoding="utf-8", errors="replace"))
    source = bench.project.source
    write_record(
        bench.records,
        Record(
            step=UNIT,
            project=bench.project.canonical,
            commit=source.commit,
            dirty=source.dirty,
            passed=outcome.exit_code == EXIT_OK,
            details=outcome.as_json(),
        ),
    )


def _run(
    bench: Bench,
    work: Path,
    environ: Mapping[str, str],
    given: Sequence[str],
    *,
    keep: bool,
    say: Callable[[str], None],
) -> Outcome:
    tests = bench.package.tests
    bed = lay(
        bench.project,
        work,
        environ,
        requirements=tests.requirements,
        constraints=bench.constraints,
        keep=keep,
    )
    arguments = unit_arguments(tests, bed.has, given)
    if not tests.keep_sources:
        take_sources_away(bed, bench.project, paths_in(arguments, bed.has), say)
    if tests.emulated:
        refuse_without_torch(bed)
        device: Device = bench.settings.model.device
        bed = emulate(bed, device.refuse_ops, device.refuse_dtypes)
    # The device is there before any test file is imported, as a card's back end is.
    plugins = ["-p", know_marker(bed, tests.device_marker)]
    plugins += ["-p", _DEVICE_PLUGIN] if tests.emulated else []
    code, problem = _pytest(bed, work / JUNIT_FILE, [*plugins, *arguments], tests.timeout_s, say)
    counts, unreadable = None, ""
    try:
        counts = read_counts(work / JUNIT_FILE)
    except BadFileError as error:
        unreadable = error.what
    return Outcome(
        counts=counts,
        pytest_code=code,
        problem=problem_of(code, counts, problem, unreadable),
        arguments=tuple(arguments),
        emulated=tests.emulated,
    )


def problem_of(code: int | None, counts: Counts | None, problem: str = "", unreadable: str = "") -> str:
    """Why tests neither passed nor failed; empty where they did one of both.

    Args:
        code: what pytest ended with; None: it was ended.
        counts: what its results say; None: there are none.
        problem: why pytest did not come to its own end.
        unreadable: why there are no results.
    """
    if problem:
        return problem
    if code is not None and code < 0:
        return f"the tests' process was ended by {signal_name(-code)}"
    if code not in {EXIT_OK, EXIT_TEST_FAILED}:
        return _WHY.get(code or 0, f"pytest ended with code {code}")
    if counts is None or not counts.ran:
        return unreadable or "no test ran"
    if (code == EXIT_TEST_FAILED) != bool(counts.failed):
        return f"pytest ended with code {code}, and its results hold {counts.failed} failed tests"
    return ""


def _pytest(
    bed: Bed, junit: Path, arguments: Sequence[str], timeout_s: float, say: Callable[[str], None]
) -> tuple[int | None, str]:
    """Pytest's exit code, and what went wrong where it did not come to its own end."""
    junit.unlink(missing_ok=True)
    # -P: the tree is no place to import from. No cache: a later run begins as this one does.
    words: list[str | Path] = [bed.environment.python, "-P", "-m", "pytest", "-p", "no:cacheprovider"]
    words += [f"--rootdir={bed.tree}", f"--junit-xml={junit}", *arguments]
    say(f"pytest {' '.join(map(harmless, arguments))}")
    try:
        code = stream_command(
            words,
            timeout_s=timeout_s,
            line=lambda text: say(harmless_line(text)),
            cwd=bed.tree,
            env={**bed.environment.variables, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"},
        )
    except CommandError as error:
        junit.unlink(missing_ok=True)
        return None, error.what
    return code, ""


def unit_arguments(tests: PackageTests, has: Callable[[str], bool], given: Sequence[str]) -> list[str]:
    """What pytest is told of which tests run.

    Args:
        tests: the settings.
        has: whether the project has a file or folder.
        given: the user's arguments; a test file among them takes the place of the settings' tests.

    Raises:
        UsageError: there are no tests.
    """
    without = ["-m", f"not {tests.device_marker}"]
    if any(_is_path(one, has) for one in given):
        return [*without, *given]
    if tests.unit:
        return [*tests.unit, *given]
    if has("tests/unit"):
        return ["tests/unit", *given]
    folder = next((name for name in _FOLDERS if has(name)), None)
    if folder is None:
        raise UsageError(
            "the project has no folder tests/unit, tests or test",
            where="package.tests.unit",
            remedy="set it to the tests that need no device",
        )
    return [*without, folder, *given]


def paths_in(arguments: Sequence[str], has: Callable[[str], bool]) -> list[str]:
    """The files and folders that arguments of pytest name."""
    return [path for one in arguments if has(path := one.partition("::")[0]) and not one.startswith("-")]


def _is_path(argument: str, has: Callable[[str], bool]) -> bool:
    """Whether an argument is a test's path, and not the value of an option."""
    path = argument.partition("::")[0]
    return ("/" in path or path.endswith(".py")) and not argument.startswith("-") and has(path)


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
