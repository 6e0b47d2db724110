"""What the end of pytest means."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ci.config.package_model import PackageTests
from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_TEST_FAILED, EXIT_USAGE, BadFileError, UsageError
from ci.package.project import Project, Pyproject
from ci.package.unit import Counts, Outcome, read_counts, unit_arguments, wanted_of

GOOD, BAD = Counts(passed=2), Counts(passed=1, failed=1, failing=("a::b: no",))


@pytest.mark.parametrize(
    ("code", "counts", "exit_code", "said"),
    [
        (0, GOOD, EXIT_OK, ""),
        (1, BAD, EXIT_TEST_FAILED, ""),
        (1, GOOD, EXIT_TEST_FAILED, ""),  # a plugin's word, as that of a coverage that is too low
        (2, Counts(failed=1), EXIT_INCOMPLETE, "could not be collected"),
        (3, GOOD, EXIT_INCOMPLETE, "pytest had an internal error"),
        (4, None, EXIT_USAGE, "pytest rejects its arguments"),
        (5, Counts(), EXIT_INCOMPLETE, "no test was collected"),
        (0, Counts(), EXIT_INCOMPLETE, "no test ran"),
        (0, Counts(skipped=3), EXIT_INCOMPLETE, "no test ran"),
        (0, None, EXIT_INCOMPLETE, "unit.xml is gone"),
        (1, None, EXIT_INCOMPLETE, "unit.xml is gone"),
        (-11, None, EXIT_INCOMPLETE, "killed by SIGSEGV"),
        (-9, GOOD, EXIT_INCOMPLETE, "killed by SIGKILL"),
        (77, GOOD, EXIT_INCOMPLETE, "ended with code 77"),
        (None, None, EXIT_INCOMPLETE, "unit.xml is gone"),
    ],
)
def test_an_end_that_is_neither_passed_nor_failed_is_incomplete(
    code: int | None, counts: Counts | None, exit_code: int, said: str
) -> None:
    ended = Outcome(pytest_code=code, counts=counts, why_not="" if counts else "unit.xml is gone")
    assert ended.exit_code == exit_code
    assert said in ended.problem
    assert bool(ended.problem) == bool(said)
    assert ended.problem in ended.line
    told = ended.as_json()
    assert (told["pytest_exit_code"], told["exit_code"], told["problem"]) == (code, exit_code, ended.problem)


def wanted(**tables: Any) -> list[str]:
    content = {"project": {"name": "p"}, **tables}
    return wanted_of(Project(folder=Path("/p"), pyproject=msgspec.convert(content, Pyproject)), Path("/c"))


def test_the_extra_or_dependency_group_test_is_asked_for_where_the_project_has_it() -> None:
    named = {"name": "p"}
    assert wanted(project={**named, "optional-dependencies": {"test": ["x"]}}) == ["/c[test]"]
    assert wanted(project={**named, "dynamic": ["optional-dependencies"]}) == ["/c[test]"]
    assert wanted(project={**named, "optional-dependencies": {"docs": ["x"]}}) == ["/c"]
    groups = {"test": ["pytest>=8", {"include-group": "more"}], "more": ["expecttest"]}
    assert wanted(**{"dependency-groups": groups}) == ["/c", "--group", "/c/pyproject.toml:test"]
    assert wanted(**{"dependency-groups": {"docs": []}}) == ["/c"]


@pytest.mark.parametrize(
    ("there", "settings", "arguments"),
    [
        ({"tests/unit"}, {"unit": ["tests/fast", "-q"]}, ["tests/fast", "-q"]),
        ({"tests", "tests/unit"}, {}, ["tests/unit"]),
        ({"tests"}, {}, ["-m", "not device", "tests"]),
        ({"test"}, {"device_marker": "card"}, ["-m", "not card", "test"]),
    ],
)
def test_the_settings_tests_run_else_the_unit_tests_else_all_without_the_marker(
    there: set[str], settings: dict[str, Any], arguments: list[str]
) -> None:
    assert unit_arguments(PackageTests(**settings), there.__contains__) == arguments


def test_a_project_without_tests_is_told_what_to_set() -> None:
    with pytest.raises(UsageError, match=r"package\.tests\.unit: the project has no folder tests/unit"):
        unit_arguments(PackageTests(), set[str]().__contains__)


JUNIT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="1" skipped="2" tests="5">
<testcase classname="tests.test_a" name="test_one" time="0.001" />
<testcase classname="tests.test_a" name="test_two"><failure message="assert 1 == 2">…</failure></testcase>
<testcase classname="" name="tests.test_b"><error message="collection failure">no module</error></testcase>
<testcase classname="tests.test_a" name="test_s"><skipped type="pytest.skip" message="no card" /></testcase>
<testcase classname="tests.test_a" name="test_x"><skipped type="pytest.xfail" message="" /></testcase>
</testsuite></testsuites>
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "unit.xml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_test_is_counted_once_and_what_failed_is_named(tmp_path: Path) -> None:
    counts = read_counts(written(tmp_path, JUNIT))
    assert (counts.passed, counts.failed, counts.skipped) == (1, 2, 2)
    assert counts.failing == (
        "tests.test_a::test_two: assert 1 == 2",
        "tests.test_b: collection failure",
    )
    assert Outcome(pytest_code=1, counts=counts).line == "1 test passed, 2 failed, 2 skipped"


def test_suites_in_suites_and_a_suite_alone_are_counted(tmp_path: Path) -> None:
    inner = '<testsuite name="i"><testcase name="b" classname="c"/></testsuite>'
    alone = f'<testsuite name="o"><testcase name="a" classname="c"/>{inner}</testsuite>'
    assert read_counts(written(tmp_path, alone)).passed == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        JUNIT[:300],
        "<html/>",
        '<!DOCTYPE x [<!ENTITY a "b">]><testsuites>&a;</testsuites>',
    ],
)
def test_what_is_no_whole_junit_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadFileError, match="is not readable as JUnit XML"):
        read_counts(written(tmp_path, text))


@pytest.mark.parametrize("pipe", [False, True])
def test_results_that_were_not_written_are_missed(tmp_path: Path, pipe: bool) -> None:
    if pipe:  # which whoever reads it would wait for
        os.mkfifo(tmp_path / "unit.xml")
    with pytest.raises(BadFileError, match="their process ended before it wrote"):
        read_counts(tmp_path / "unit.xml")
