"""Counting what a test runner wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.core.errors import BadFileError
from ci.package.junit import read_counts

GOOD = """<?xml version="1.0" encoding="utf-8"?>
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
    counts = read_counts(written(tmp_path, GOOD))
    assert (counts.passed, counts.failed, counts.skipped, counts.ran) == (1, 2, 2, 3)
    assert counts.failing == (
        "tests.test_a::test_two: assert 1 == 2",
        "tests.test_b: collection failure",
    )
    assert counts.line == "1 test passed, 2 failed, 2 skipped"


def test_suites_in_suites_and_a_suite_alone_are_counted(tmp_path: Path) -> None:
    inner = '<testsuite name="i"><testcase name="b" classname="c"/></testsuite>'
    alone = f'<testsuite name="o"><testcase name="a" classname="c"/>{inner}</testsuite>'
    assert read_counts(written(tmp_path, alone)).passed == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        GOOD[:300],
        "<html/>",
        '<!DOCTYPE x [<!ENTITY a "b">]><testsuites>&a;</testsuites>',
    ],
)
def test_what_is_no_whole_junit_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadFileError, match="is no JUnit that can be read"):
        read_counts(written(tmp_path, text))


def test_results_that_were_not_written_are_missed(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="their process ended before it wrote"):
        read_counts(tmp_path / "unit.xml")
