"""Durations come back as they were written, and what is no number of seconds is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from test_selection.durations_file import Durations, read_durations, write_durations
from test_selection.errors import BadFileError

seconds = st.dictionaries(st.text(), st.floats(0, 1e8), max_size=5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.builds(Durations, tests=seconds, files=seconds, spread=seconds, classes=seconds),
    st.sampled_from(["d.json", "d.json.gz"]),
)
def test_durations_come_back(tmp_path: Path, durations: Durations, name: str) -> None:
    write_durations(tmp_path / name, durations)
    assert read_durations(tmp_path / name) == durations


@pytest.mark.parametrize("table", ["tests", "files", "spread", "classes"])
@pytest.mark.parametrize("value", ["-1", "NaN", "Infinity", "1e9", "true", '"3"', "null", "[]"])
def test_what_is_no_number_of_seconds_is_refused(tmp_path: Path, table: str, value: str) -> None:
    tables = {"tests": "{}", "files": "{}", table: f'{{"a": {value}}}'}
    text = ", ".join(f'"{name}": {rows}' for name, rows in tables.items())
    (tmp_path / "d.json").write_text(f'{{"schema": "spyre-ci/durations/1", {text}}}')
    with pytest.raises(
        BadFileError, match=rf"{table}\['a'\] is .*, not seconds from 0 to 1,000,000,000"
    ) as caught:
        read_durations(tmp_path / "d.json")
    assert "mend that value" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"tests": {}}, "key 'files' is NoneType, not a table of seconds"),
        ({"tests": [], "files": {}}, "key 'tests' is list, not a table of seconds"),
        ({"tests": {}, "files": {}, "spread": None}, "key 'spread' is NoneType, not a table of seconds"),
        ({"tests": {}, "files": {}, "classes": 3}, "key 'classes' is int, not a table of seconds"),
    ],
)
def test_a_missing_table_is_refused(tmp_path: Path, content: dict[str, Any], message: str) -> None:
    (tmp_path / "d.json").write_text(json.dumps({"schema": "spyre-ci/durations/1", **content}))
    with pytest.raises(BadFileError, match=message):
        read_durations(tmp_path / "d.json")


def test_tables_that_are_empty_leave_no_key(tmp_path: Path) -> None:
    write_durations(tmp_path / "d.json", Durations(tests={"a": 1.0}))
    assert set(json.loads((tmp_path / "d.json").read_text())) == {"schema", "tests", "files"}
