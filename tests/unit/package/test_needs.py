"""What a project's tests need, and which of them run without a device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci.config.package_model import PackageTests
from ci.core.errors import BadFileError, UsageError
from ci.package.needs import extra_of, group_of, paths_in, unit_arguments
from ci.package.project import Project, Source
from ci.package.unit_cli import split


def project(**tables: Any) -> Project:
    content = {"project": {"name": "p"}, **tables}
    return Project(folder=Path("/p"), name="p", pyproject=content, source=Source(commit=""))


def test_the_extra_test_is_asked_for_where_the_project_has_it() -> None:
    assert extra_of(project(project={"name": "p", "optional-dependencies": {"test": ["x"]}})) == "[test]"
    assert extra_of(project(project={"name": "p", "dynamic": ["optional-dependencies"]})) == "[test]"
    assert extra_of(project(project={"name": "p", "optional-dependencies": {"docs": ["x"]}})) == ""


def test_a_dependency_group_is_resolved_with_those_it_includes() -> None:
    groups = {"test": ["pytest>=8", {"include-group": "more"}], "more": ["expecttest"], "docs": ["sphinx"]}
    assert group_of(project(**{"dependency-groups": groups})) == ["pytest>=8", "expecttest"]
    assert group_of(project()) == []


@pytest.mark.parametrize(
    "groups",
    [
        {"test": [{"include-group": "test"}]},
        {"test": [{"include-group": "gone"}]},
        {"test": ["--index-url=http://x"]},
        {"test": "pytest"},
    ],
)
def test_a_broken_dependency_group_is_told(groups: dict[str, Any]) -> None:
    with pytest.raises(BadFileError, match="the dependency group 'test' cannot be resolved") as caught:
        group_of(project(**{"dependency-groups": groups}))
    assert "/p/pyproject.toml" in str(caught.value)


def arguments(there: set[str], *given: str, **settings: Any) -> list[str]:
    return unit_arguments(PackageTests(**settings), there.__contains__, given)


def test_what_the_settings_name_runs() -> None:
    assert arguments({"tests/unit"}, "-x", unit=["tests/fast", "-q"]) == ["tests/fast", "-q", "-x"]


def test_without_settings_the_unit_tests_run_where_there_is_such_a_folder() -> None:
    assert arguments({"tests", "tests/unit"}) == ["tests/unit"]


def test_else_all_that_do_not_carry_the_marker_run() -> None:
    assert arguments({"tests"}) == ["-m", "not device", "tests"]
    assert arguments({"test"}, device_marker="card") == ["-m", "not card", "test"]


def test_a_named_file_takes_the_place_of_all_others() -> None:
    there = {"tests/unit", "tests/unit/test_a.py"}
    assert arguments(there, "tests/unit/test_a.py::test_x", "-q") == [
        "-m", "not device", "tests/unit/test_a.py::test_x", "-q",
    ]  # fmt: skip
    assert arguments(there, "-k", "shapes") == ["tests/unit", "-k", "shapes"]


def test_a_project_without_tests_is_told_what_to_set() -> None:
    with pytest.raises(UsageError, match=r"package\.tests\.unit: the project has no folder tests/unit"):
        arguments(set())


def test_the_files_among_arguments_are_known() -> None:
    there = {"tests", "tests/a.py"}
    assert paths_in(["-m", "not device", "tests/a.py::x", "tests", "gone"], there.__contains__) == [
        "tests/a.py", "tests",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "folder", "given"),
    [
        ([], ".", []),
        (["p"], "p", []),
        (["p", "-k", "x"], "p", ["-k", "x"]),
        (["-k", "x"], ".", ["-k", "x"]),
    ],
)
def test_what_begins_with_a_dash_is_no_folder(words: list[str], folder: str, given: list[str]) -> None:
    assert split(words) == (Path(folder), given)
