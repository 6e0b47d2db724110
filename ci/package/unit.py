"""`spyre-ci package unit`: a project's tests that need no device, against what was installed of it.

The JUnit that its runner writes is another's word: entities in it are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.config.package_model import PackageTests
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
from ci.core.text import counted, listed, one_line
from ci.package.records import UNIT, forget_record
from ci.package.test_env import Env, install, remove_sources, with_plugins
from ci.package.text import harmless, harmless_line
from ci.package.wiring import Bench
from ci.record.junit import case_of, junit_cases
from test_selection.files import write_text

_FOLDERS = ("tests", "test")
# As many failed tests are named in a record.
MOST_FAILED = 100
JUNIT_FILE = "unit.xml"
# pytest's exit codes that are no outcome of tests: see pytest.ExitCode.
_USAGE = 4
_WHY = {
    2: "pytest stopped early: a file could not be collected, or the run was interrupted",
    3: "pytest itself broke",
    _USAGE: "pytest does not take its arguments",
    5: "no test was collected",
}


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
    def line(self) -> str:
        """For people."""
        return f"{counted(self.passed, 'test')} passed, {self.failed:,} failed, {self.skipped:,} skipped"

    def as_json(self) -> dict[str, object]:
        """For machines, and the record."""
        numbers = {"passed": self.passed, "failed": self.failed, "skipped": self.skipped}
        return {**numbers, "failing": list(self.failing)}


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
        return "; ".join(filter(None, [self.counts.line if self.counts else "", self.problem]))

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
    work, tests = bench.settings.state_dir / "package" / "unit" / bench.project.canonical, bench.package.tests
    work.mkdir(parents=True, exist_ok=True)
    if bench.left_out:
        say(f"left out, not being in the repository: {listed(bench.left_out, 3)}")
    if not given:
        forget_record(bench.records, UNIT)
        (bench.records / JUNIT_FILE).unlink(missing_ok=True)
    busy = RunInUseError("this project's tests run already", where=work, remedy="wait for their end")
    with alone(work / "lock", busy):
        env = install(
            bench.project, work, environ,
            requirements=tests.requirements, constraints=bench.constraints, keep=keep,
        )  # fmt: skip
        arguments = unit_arguments(tests, env.has, given)
        if not tests.keep_sources:
            remove_sources(env, bench.project, paths_in(arguments, env.has), say)
        env = with_plugins(env, tests.device_marker, bench.settings.model.device if tests.emulated else None)
        outcome = _pytest(env, work / JUNIT_FILE, arguments, tests, say)
        if given:
            say(f"no record: with arguments of pytest a part may have run; JUnit: {work / JUNIT_FILE}")
        else:
            _note(bench, outcome, work / JUNIT_FILE)
    return outcome


def _note(bench: Bench, outcome: Outcome, junit: Path) -> None:
    if junit.is_file():
        write_text(bench.records / JUNIT_FILE, junit.read_text(encoding="utf-8", errors="replace"))
    bench.note(UNIT, passed=outcome.exit_code == EXIT_OK, details=outcome.as_json())


def _pytest(
    env: Env, junit: Path, arguments: Sequence[str], tests: PackageTests, say: Callable[[str], None]
) -> Outcome:
    """Run pytest to its end, and read what it wrote."""
    junit.unlink(missing_ok=True)
    # -P: the tree is no place to import from. No cache: a later run begins as this one does.
    words: list[str | Path] = [env.environment.python, "-P", "-m", "pytest", "-p", "no:cacheprovider"]
    words += [word for plugin in env.plugins for word in ("-p", plugin)]
    words += [f"--rootdir={env.tree}", f"--junit-xml={junit}", *arguments]
    say(f"pytest {' '.join(map(harmless, arguments))}")
    code: int | None = None
    counts, problem, unreadable = None, "", ""
    try:
        code = stream_command(
            words,
            timeout_s=tests.timeout_s,
            line=lambda text: say(harmless_line(text)),
            cwd=env.tree,
            env={**env.environment.variables, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"},
        )
        counts = read_counts(junit)
    except BadFileError as error:
        unreadable = error.what
    except CommandError as error:
        problem = error.what
    return Outcome(
        counts=counts,
        pytest_code=code,
        problem=problem or problem_of(code, counts, unreadable),
        arguments=tuple(arguments),
        emulated=tests.emulated,
    )


def problem_of(code: int | None, counts: Counts | None, unreadable: str = "") -> str:
    """Why tests neither passed nor failed; empty where they did one of both; pure.

    Args:
        code: what pytest ended with.
        counts: what its results say; None: there are none.
        unreadable: why there are no results.
    """
    if code is not None and code < 0:
        return f"the tests' process was ended by {signal_name(-code)}"
    if code not in {EXIT_OK, EXIT_TEST_FAILED}:
        return _WHY.get(code or 0, f"pytest ended with code {code}")
    if counts is None or not counts.passed + counts.failed:
        return unreadable or "no test ran"
    if (code == EXIT_TEST_FAILED) != bool(counts.failed):
        return f"pytest ended with code {code}, and its results hold {counts.failed} failed tests"
    return ""


def unit_arguments(tests: PackageTests, has: Callable[[str], bool], given: Sequence[str]) -> list[str]:
    """What pytest is told of which tests run; pure.

    Args:
        tests: the settings.
        has: whether the project has a file or folder.
        given: the user's arguments; a test file among them takes the place of the settings' tests.

    Raises:
        UsageError: there are no tests.
    """
    without = ["-m", f"not {tests.device_marker}"]
    # A word without a slash may be an option's value.
    if any("/" in path or path.endswith(".py") for path in paths_in(given, has)):
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
    """The files and folders that arguments of pytest name; pure."""
    return [path for one in arguments if has(path := one.partition("::")[0]) and not one.startswith("-")]


def read_counts(path: Path) -> Counts:
    """Count the tests of a JUnit file.

    Raises:
        BadFileError: it is not there, is no JUnit, or declares entities.
    """
    counts: Counter[str] = Counter()
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
