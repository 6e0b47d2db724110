"""The selection comes back as it was written, and a broken one is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from test_selection.errors import BadFileError, MissingInputError
from test_selection.selection import Expectation, Selection, read_selection, write_selection

counts = st.dictionaries(st.text(), st.integers(0))
selections = st.builds(
    Selection,
    stage=st.none() | st.integers(0, 5),
    percent=st.floats(0, 100),
    ids=st.lists(st.text(), max_size=4),
    in_scope=st.integers(0),
    out_of_scope=counts,
    expectations=st.dictionaries(
        st.text(), st.builds(Expectation, mode=st.text(), reason=st.text()), max_size=3
    ),
    collect_errors=st.dictionaries(st.text(), st.text(), max_size=3),
    missing=st.lists(st.text(), max_size=3),
    bucket=st.none() | st.text(),
    moved=st.dictionaries(st.text(), st.dictionaries(st.text(), st.text(), max_size=3), max_size=2),
    beyond=st.dictionaries(st.text(), st.text(), max_size=2),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(selections)
def test_a_selection_comes_back(tmp_path: Path, selection: Selection) -> None:
    write_selection(tmp_path / "s.json", selection)
    assert read_selection(tmp_path / "s.json") == selection


def write(path: Path, content: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"schema": "spyre-ci/selection/1", **content}))
    return path


def test_stage_percent_and_ids_are_enough(tmp_path: Path) -> None:
    path = write(tmp_path / "s.json", {"stage": None, "percent": 5, "ids": ["a"]})
    assert read_selection(path) == Selection(stage=None, percent=5.0, ids=["a"])


@pytest.mark.parametrize(
    "content",
    [
        {"percent": 5, "ids": []},
        {"stage": 1, "ids": []},
        {"stage": 1, "percent": 5},
        {"stage": "x", "percent": 5, "ids": []},
        {"stage": 1e999, "percent": 5, "ids": []},
        {"stage": 1, "percent": "x", "ids": []},
        {"stage": 1, "percent": 5, "ids": "abc"},
        {"stage": 1, "percent": 5, "ids": [3]},
        {"stage": 1, "percent": 5, "ids": [], "expectations": {"a": {}}},
        {"stage": 1, "percent": 5, "ids": [], "expectations": []},
    ],
)
def test_a_missing_or_wrong_key_is_refused(tmp_path: Path, content: dict[str, Any]) -> None:
    with pytest.raises(BadFileError, match="a key is missing or of the wrong kind") as caught:
        read_selection(write(tmp_path / "s.json", content))
    assert "spyre-ci select" in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="there is no selection file"):
        read_selection(tmp_path / "none.json")
