"""Durations come back as they were written, and what nobody timed is estimated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from test_selection.catalog import Catalog, CatalogTest, FileRecord
from test_selection.durations import (
    UNKNOWN_TEST_S,
    Durations,
    estimate_files,
    estimate_tests,
    read_durations,
    write_durations,
)
from test_selection.errors import BadFileError

seconds = st.dictionaries(st.text(), st.floats(0, 1e8), max_size=5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.builds(Durations, tests=seconds, files=seconds), st.sampled_from(["d.json", "d.json.gz"]))
def test_durations_come_back(tmp_path: Path, durations: Durations, name: str) -> None:
    write_durations(tmp_path / name, durations)
    assert read_durations(tmp_path / name) == durations


@pytest.mark.parametrize("table", ["tests", "files"])
@pytest.mark.parametrize("value", ["-1", "NaN", "Infinity", "1e9", "true", '"3"', "null", "[]"])
def test_what_is_no_number_of_seconds_is_refused(tmp_path: Path, table: str, value: str) -> None:
    tables = {"tests": "{}", "files": "{}", table: f'{{"a": {value}}}'}
    text = ", ".join(f'"{name}": {rows}' for name, rows in tables.items())
    (tmp_path / "d.json").write_text(f'{{"schema": "spyre-ci/durations/1", {text}}}')
    with pytest.raises(BadFileError, match=rf"{table}\['a'\] is .*, not seconds of 0 or more") as caught:
        read_durations(tmp_path / "d.json")
    assert "mend that value" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"tests": {}}, "key 'files' is NoneType, not a table of seconds"),
        ({"tests": [], "files": {}}, "key 'tests' is list, not a table of seconds"),
    ],
)
def test_a_missing_table_is_refused(tmp_path: Path, content: dict[str, Any], message: str) -> None:
    (tmp_path / "d.json").write_text(json.dumps({"schema": "spyre-ci/durations/1", **content}))
    with pytest.raises(BadFileError, match=message):
        read_durations(tmp_path / "d.json")


def make_tests(file: str, *names: str) -> list[CatalogTest]:
    return [CatalogTest(id=f"{file}::{name}", node="", file=file) for name in names]


def test_a_test_takes_its_own_time_then_its_files_median_then_that_of_all() -> None:
    tests = [*make_tests("a", "1", "2", "3", "4"), *make_tests("b", "1"), *make_tests("c", "1")]
    known = {"a::1": 1.0, "a::2": 2.0, "a::3": 9.0, "b::1": 4.0, "z::1": 100.0}
    found = estimate_tests(tests, Durations(tests=known))
    assert found == {"a::1": 1.0, "a::2": 2.0, "a::3": 9.0, "a::4": 2.0, "b::1": 4.0, "c::1": 3.0}


def test_without_any_time_each_test_takes_the_same_guess() -> None:
    assert estimate_tests(make_tests("a", "1"), Durations()) == {"a::1": UNKNOWN_TEST_S}


def test_tests_may_come_from_an_iterator() -> None:
    assert estimate_tests(iter(make_tests("a", "1")), Durations(tests={"a::1": 7.0})) == {"a::1": 7.0}


def test_a_file_takes_its_measured_set_up_before_its_collection() -> None:
    files = {"a": FileRecord(collect_s=1.0), "b": FileRecord(collect_s=2.0)}
    catalog = Catalog(pytorch="p", device="d", files=files)
    assert estimate_files(catalog, Durations(files={"a": 5.0, "z": 9.0})) == {"a": 5.0, "b": 2.0}
