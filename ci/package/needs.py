"""What a project's own tests need and how pytest is told to run them; pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dependency_groups import resolve

from ci.config.package_model import PackageTests
from ci.core.errors import BadFileError, UsageError
from ci.package.project import PYPROJECT, Project

TEST = "test"
_FOLDERS = ("tests", "test")


def extra_of(project: Project) -> str:
    """`[test]` where the project has such an extra, or may have one that is made when it is built."""
    table = project.pyproject["project"]
    dynamic = "optional-dependencies" in table.get("dynamic", [])
    return f"[{TEST}]" if dynamic or TEST in table.get("optional-dependencies", {}) else ""


def group_of(project: Project) -> list[str]:
    """The requirements of the dependency group `test` (PEP 735); none where there is no such group.

    Raises:
        BadFileError: the groups are not what the standard has.
    """
    groups = project.pyproject.get("dependency-groups", {})
    if TEST not in groups:
        return []
    try:
        return list(resolve(groups, TEST))
    except (ValueError, TypeError, LookupError) as error:
        raise BadFileError(
            f"the dependency group {TEST!r} cannot be resolved: {error}",
            where=project.folder / PYPROJECT,
            remedy="mend it there; see PEP 735",
        ) from error


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
