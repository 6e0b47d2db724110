"""`spyre-ci package unit`: a project's tests that need no device, against what was installed of it.

The tests are run from a copy in which the packages themselves are missing, so that every import finds what
was installed: a file that was forgotten in the wheel is missed here, and the checkout is not written to.
The JUnit that its runner writes is another's word: entities in it are refused.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import ci
import test_selection
from ci.config.package_model import PackageTests
from ci.config.run_model import Device
from ci.core.commands import signal_name, stream_command
from ci.core.errors import (
    EXIT_INCOMPLETE,
    EXIT_OK,
    EXIT_TEST_FAILED,
    EXIT_USAGE,
    BadFileError,
    CommandError,
    UsageError,
)
from ci.core.text import counted, listed, one_line
from ci.device.environment import EMULATE, device_environment
from ci.package.context import Context
from ci.package.environment import Environment, make
from ci.package.export import export
from ci.package.project import PYPROJECT, Project
from ci.package.records import UNIT, forget_record
from ci.package.text import harmless, harmless_line
from ci.record.junit_reader import case_of, junit_cases
from test_selection.files import write_text

_FOLDERS = ("tests", "test")
# As many failed tests are named in a record.
MOST_FAILED = 100
JUNIT_FILE = "unit.xml"
# pytest's exit codes that are no outcome of tests: see pytest.ExitCode.
_USAGE = 4
_WHY = {
    2: "pytest stopped early: a file could not be collected, or the run was interrupted",
    3: "pytest had an internal error",
    _USAGE: "pytest rejects its arguments",
    5: "no test was collected",
}
# The extra or the dependency group with what tests want.
_TEST = "test"
_MARKER_PLUGIN = "spyre_ci_device_marker"
_DEVICE_PLUGIN = "ci.device.pytest_plugin"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a project's tests.

    Attributes:
        pytest_code: what pytest ended with, below 0 a signal's number; None: it was ended.
        counts: by outcome; None where there are no results.
        why_not: why there are none, or why pytest was ended.
    """

    pytest_code: int | None
    counts: Counts | None = None
    why_not: str = ""

    @property
    def problem(self) -> str:
        """Why tests neither passed nor failed; empty where they did one of both."""
        code = self.pytest_code
        if code is not None and code < 0:
            return f"the test process was killed by {signal_name(-code)}"
        if code not in {EXIT_OK, EXIT_TEST_FAILED, None}:
            return _WHY.get(code or 0, f"pytest ended with code {code}")
        ran = self.counts is not None and self.counts.passed + self.counts.failed
        return "" if ran else self.why_not or "no test ran"

    @property
    def exit_code(self) -> int:
        """Of the command."""
        if self.pytest_code == _USAGE:
            return EXIT_USAGE
        return EXIT_INCOMPLETE if self.problem else self.pytest_code or EXIT_OK

    @property
    def line(self) -> str:
        """For people."""
        if (seen := self.counts) is None:
            return self.problem
        line = f"{counted(seen.passed, 'test')} passed, {seen.failed:,} failed, {seen.skipped:,} skipped"
        return f"{line}; {self.problem}" if self.problem else line

    def as_json(self) -> dict[str, Any]:
        """For machines, and the record."""
        return {
            "counts": None if self.counts is None else asdict(self.counts),
            "pytest_exit_code": self.pytest_code,
            "exit_code": self.exit_code,
            "problem": self.problem,
        }


def run_unit(
    context: Context,
    environ: Mapping[str, str],
    say: Callable[[str], None],
) -> tuple[Outcome, dict[str, Any]]:
    """Install the project, run its tests, and note what became of them; the same for machines.

    Args:
        context: of the project.
        environ: the user's variables.
        say: takes a line for people.

    Raises:
        RunInUseError: its tests run already.
        NotInstalledError: it cannot be installed.
        UsageError: there are no tests, or the emulated device is wanted without torch.
    """
    tests, project, kept = context.package.tests, context.project, context.records / JUNIT_FILE
    if context.left_out:
        say(f"left out (not tracked by Git): {listed(context.left_out, 3)}")
    forget_record(context.records, UNIT)
    kept.unlink(missing_ok=True)
    with context.alone(UNIT) as work:
        junit = work / JUNIT_FILE
        env = install(context, work, environ)
        arguments = unit_arguments(tests, env.has)
        if not tests.keep_sources:
            remove_sources(env, project, arguments, say)
        env = with_plugins(
            env, tests.device_marker, context.settings.model.device if tests.emulated else None
        )
        outcome = _pytest(env, junit, arguments, tests.timeout_s, say)
        told = {**outcome.as_json(), "arguments": arguments, "emulated": tests.emulated}
        if junit.is_file():
            write_text(kept, junit.read_text(encoding="utf-8", errors="replace"))
        context.note(UNIT, passed=outcome.exit_code == EXIT_OK, details=told)
    return outcome, told


def _pytest(
    env: Env, junit: Path, arguments: Sequence[str], timeout_s: float, say: Callable[[str], None]
) -> Outcome:
    """Run pytest to its end, and read what it wrote."""
    junit.unlink(missing_ok=True)
    # -P: the tree is no place to import from. No cache: a later run begins as this one does.
    words: list[str | Path] = [env.environment.python, "-P", "-m", "pytest", "-p", "no:cacheprovider"]
    words += [word for plugin in env.plugins for word in ("-p", plugin)]
    words += [f"--rootdir={env.tree}", f"--junit-xml={junit}", *arguments]
    say(f"pytest {' '.join(map(harmless, arguments))}")
    try:
        code = stream_command(
            words,
            timeout_s=timeout_s,
            line=lambda text: say(harmless_line(text)),
            cwd=env.tree,
            env={**env.environment.variables, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"},
        )
    except CommandError as error:
        return Outcome(pytest_code=None, why_not=f"{error.what} (package.tests.timeout_s)")
    try:
        return Outcome(pytest_code=code, counts=read_counts(junit))
    except BadFileError as error:
        return Outcome(pytest_code=code, why_not=f"{junit.name} {error.what}; {error.remedy}")


def unit_arguments(tests: PackageTests, has: Callable[[str], bool]) -> list[str]:
    """What pytest is told of which tests run; pure.

    Args:
        tests: the settings.
        has: whether the project has a file or folder.

    Raises:
        UsageError: there are no tests.
    """
    if tests.unit or has("tests/unit"):
        return tests.unit or ["tests/unit"]
    folder = next((name for name in _FOLDERS if has(name)), None)
    if folder is None:
        raise UsageError(
            "the project has no folder tests/unit, tests or test",
            where="package.tests.unit",
            remedy="set it to the tests that need no device",
        )
    return ["-m", f"not {tests.device_marker}", folder]


def read_counts(path: Path) -> Counts:
    """Count the tests of a JUnit file.

    Raises:
        BadFileError: it is not found, is no JUnit, or declares entities.
    """
    try:
        if not path.is_file():  # nor a pipe that a test put there, which would never end
            raise FileNotFoundError("there is no such file")
        with path.open("rb") as stream:
            cases = [case_of(element) for element, _ in junit_cases(stream, name=path.name)]
    except (OSError, BadFileError) as error:
        raise BadFileError(
            f"is not readable as JUnit XML: {error.what if isinstance(error, BadFileError) else error}",
            where=path,
            remedy="see the tests' output: their process ended before it wrote its results",
        ) from error
    bad = [one for one in cases if one.became == "failed"][:MOST_FAILED]
    failing = [one_line(f"{one.name}: {one.message}" if one.message else one.name) for one in bad]
    seen = Counter(one.became for one in cases)
    return Counts(
        passed=seen["passed"], failed=seen["failed"], skipped=seen["skipped"], failing=tuple(failing)
    )


class NotInstalledError(CommandError):
    """A project that cannot be installed, so that nothing was tested."""

    exit_code = EXIT_INCOMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """Where tests run.

    Attributes:
        environment: what is installed.
        tree: the project's files.
        plugins: of pytest, besides the project's own.
    """

    environment: Environment
    tree: Path
    plugins: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Whether the tree has a file or folder."""
        path = (self.tree / name).resolve()
        return bool(name) and path.is_relative_to(self.tree) and path.exists()


def install(context: Context, work: Path, environ: Mapping[str, str]) -> Env:
    """Install a project from a copy of its checkout, with what its tests need.

    Args:
        context: of the project.
        work: a folder for it.
        environ: the user's variables; tests see them without tokens.

    Raises:
        NotInstalledError: pip could not.
    """
    project = context.project
    tree = export(project, work / "tree").resolve()
    environment = make(work / "env", environ, constraints=context.constraints)
    try:
        environment.install([*wanted_of(project, tree), *context.package.tests.requirements])
    except CommandError as error:
        raise NotInstalledError(
            f"the project cannot be installed with what its tests need: {error.what}",
            where=project.folder,
            remedy="see pip's last lines; `spyre-ci package build` shows more of a failed build",
        ) from error
    return Env(environment=environment, tree=tree)


def wanted_of(project: Project, tree: Path) -> list[str]:
    """What pip is told of the project: itself, and its extra and its dependency group (PEP 735) `test`.

    Args:
        project: the checkout.
        tree: the copy of it that is installed.
    """
    table = project.pyproject.project
    # Extras that are made when it is built may have it.
    extra = _TEST in table.optional_dependencies or "optional-dependencies" in table.dynamic
    group = ["--group", f"{tree / PYPROJECT}:{_TEST}"] if _TEST in project.pyproject.dependency_groups else []
    return [f"{tree}[{_TEST}]" if extra else str(tree), *group]


def remove_sources(env: Env, project: Project, keep: Sequence[str], say: Callable[[str], None]) -> None:
    """Delete from the tree what was installed, so that no test imports it from there.

    Args:
        env: where tests run.
        project: what was installed.
        keep: pytest's arguments, some of them paths; a package that holds one stays, which is said.
        say: takes a line for people.
    """
    (found,) = distributions(name=project.canonical, path=[str(env.environment.site)])
    installed = {file.parts[0] for file in found.files or ()}
    kept = [(env.tree / one.partition("::")[0]).resolve() for one in keep]
    for path in [*env.tree.iterdir(), *(env.tree / "src").glob("*")]:
        if path.name not in installed:
            continue
        if any(one.is_relative_to(path) for one in kept):
            say(f"{path.name} contains its tests, which may import it from the sources, not as installed")
        elif path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def with_plugins(env: Env, marker: str, device: Device | None) -> Env:
    """The same with a plugin that knows the marker of cards and, where one is wanted, the emulated device.

    The device is that of this very spyre-ci, found by PYTHONPATH without what spyre-ci depends on: it needs
    torch alone, and the project's own requirements stay as they are.

    Args:
        env: where tests run.
        marker: of tests that need a card; where it is not registered, pytest would refuse to be asked for it.
        device: settings of the emulated device; None: none is wanted.
    """
    folder = env.environment.folder.parent / "plugins"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / f"{_MARKER_PLUGIN}.py").write_text(
        f'def pytest_configure(config):\n    config.addinivalue_line("markers", "{marker}: needs a card")\n',
        encoding="utf-8",
    )
    variables = {**env.environment.variables, "PYTHONPATH": str(folder)}
    plugins = [_MARKER_PLUGIN]
    if device is not None:
        for package in (ci, test_selection):
            source = Path(package.__file__ or "").parent
            (folder / source.name).symlink_to(source, target_is_directory=True)
        variables |= device_environment("spyre", device.refuse_ops, device.refuse_dtypes)
        # The emulated device is wanted although torch_spyre is there; torch must not load that.
        variables |= {EMULATE: "1", "SPYRE_CI_TEST_DEVICE": "emulated", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        plugins.append(_DEVICE_PLUGIN)
    return replace(env, environment=replace(env.environment, variables=variables), plugins=tuple(plugins))
