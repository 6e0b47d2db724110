"""Durations come back as they were written, and what is no number of seconds is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from test_selection.durations import (
    Durations,
    choose_class_times,
    parse_class_times,
    read_durations,
    write_durations,
)
from test_selection.errors import BadFileError, UsageError

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
    assert "fix that value" in str(caught.value)


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


HERE = Path("times.json")
json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


def test_a_class_is_known_with_and_without_its_devices_suffix() -> None:
    found = parse_class_times({"a/b": {"nn/test_x": {"TestXCUDA": 2.0, "TestY": 1}}}, HERE)
    assert found == {
        "a/b": {"nn/test_x.py::TestX": 2.0, "nn/test_x.py::TestXCUDA": 2.0, "nn/test_x.py::TestY": 1}
    }


def test_where_both_names_stand_the_greater_seconds_count() -> None:
    found = parse_class_times({"a/b": {"t": {"TCPU": 80.0, "T": 77.0}}}, HERE)
    assert found["a/b"]["t.py::T"] == 80.0
    assert parse_class_times({"a/b": {"t": {"T": 80.0, "TCPU": 77.0}}}, HERE)["a/b"]["t.py::T"] == 80.0


def test_a_class_that_is_called_as_a_device_keeps_its_name() -> None:
    assert parse_class_times({"a/b": {"t": {"CPU": 1.0}}}, HERE) == {"a/b": {"t.py::CPU": 1.0}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], r"times\.json: the document is list, not a table"),
        ({"a/b": 3}, r"\['a/b'\] is int, not a table"),
        ({"a/b": {"t": None}}, r"\['a/b'\]\['t'\] is NoneType, not a table"),
        ({"a/b": {"t": {"T": "1"}}}, r"\['a/b'\]\['t'\]\['T'\] is '1', not seconds"),
        ({"a/b": {"t": {"T": float("nan")}}}, r"is nan, not seconds"),
        ({"a/b": {"t": {"T": -1}}}, r"is -1, not seconds"),
        ({"a/b": {"t": {"T": True}}}, r"is True, not seconds"),
    ],
)
def test_another_form_is_refused_with_its_key(content: object, message: str) -> None:
    with pytest.raises(BadFileError, match=message) as caught:
        parse_class_times(content, HERE)
    assert "class times as PyTorch publishes them" in str(caught.value)


@given(json_values)
def test_any_json_is_taken_or_refused(content: object) -> None:
    try:
        found = parse_class_times(content, HERE)
    except BadFileError:
        return
    assert all(0 <= seconds < 1e9 for classes in found.values() for seconds in classes.values())


TIMES = {"a/x": {"t.py::T": 1.0, "t.py::U": 5.0}, "a/y": {"t.py::T": 3.0}}


def test_the_only_configuration_needs_no_name() -> None:
    assert choose_class_times({"a/y": TIMES["a/y"]}, [], HERE) == {"t.py::T": 3.0}


def test_several_named_configurations_give_the_median_of_each_class() -> None:
    assert choose_class_times(TIMES, ["a/y", "a/x", "a/x"], HERE) == {"t.py::T": 2.0, "t.py::U": 5.0}


def test_a_choice_that_was_not_made_is_refused_with_what_there_is() -> None:
    with pytest.raises(UsageError, match="holds class times of 2 configurations") as caught:
        choose_class_times(TIMES, [], HERE)
    assert "name one with --config, or several for the median over them: a/x, a/y" in str(caught.value)
    with pytest.raises(UsageError, match="holds class times of 0 configurations"):
        choose_class_times({}, [], HERE)


def test_a_configuration_that_is_not_there_is_refused_with_what_there_is() -> None:
    with pytest.raises(UsageError, match="there is no configuration 'b'") as caught:
        choose_class_times(TIMES, ["a/x", "b"], HERE)
    assert "name one of: a/x, a/y" in str(caught.value)
