"""The selection comes back as it was written; its note says what is complete when, and when to relock."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from test_selection.catalog import CatalogTest
from test_selection.errors import BadFileError, MissingInputError
from test_selection.files import convert
from test_selection.lock import Lock, make_lock, members
from test_selection.selection import (
    Expectation,
    OrderNote,
    Selection,
    TierNote,
    drift,
    make_note,
    note_lines,
    read_selection,
    tier_note_lines,
    write_selection,
)
from test_selection.selection_order import By, below

from .any_tests import any_tests, make_test, percents

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


MANY = [make_test(0, template, extra=extra) for template in range(10) for extra in range(400)]


def lock_of(tests: list[CatalogTest]) -> Lock:
    seconds = {test.id: 1 + number % 7 for number, test in enumerate(tests)}
    return make_lock(tests, torch="2", device="cpu", scope="v1", seconds=seconds)


def note_of(lock: Lock, tests: list[CatalogTest], percent: float, scope: str = "v1") -> OrderNote:
    chosen = members(tests, lock, percent=percent)
    return make_note(
        lock, tests, chosen, percent=percent, by="count", source="selection.lock.gz", scope_version=scope
    )


@given(any_tests(), percents, st.sampled_from(["count", "seconds"]))
def test_a_fresh_lock_has_no_drift(tests: list[CatalogTest], percent: float, by: By) -> None:
    lock = lock_of(tests)
    chosen = {test.id for test in members(tests, lock, percent=percent, by=by)}
    assert drift(lock, tests, chosen, percent=percent, by=by) == pytest.approx(0, abs=1e-9)


def test_a_fresh_lock_asks_for_nothing() -> None:
    note = note_of(lock_of(MANY), MANY, 5)
    assert note.remarks == ()
    assert (note.locked, note.came, note.went) == (4000, 0, 0)
    assert note.reached["templates"] == (10, 10)
    assert note.complete_at["templates"] == 0.23


@pytest.mark.parametrize("by", ["count", "seconds"])
def test_a_share_that_drifted_by_more_than_a_quarter_of_a_per_cent_asks_for_a_relock(by: By) -> None:
    lock = lock_of(MANY)
    first = {test.id for test in lock.order.tests[:200]}
    few = [test for test in MANY if test.id not in set(sorted(first)[:20])]
    chosen = {test.id for test in members(few, lock, percent=5, by=by)}
    assert drift(lock, few, chosen, percent=5, by=by) < -0.25
    found = [test for test in few if test.id in chosen]
    note = make_note(lock, few, found, percent=5, by=by, source="x", scope_version="v1")
    remark = note.remarks[0]
    assert remark.startswith("the share has drifted from 5 % by -0.")
    assert remark.endswith("since the lock: relock with `spyre-ci select --relock`")


def test_tests_that_came_and_went_are_counted() -> None:
    lock = lock_of(MANY[:2000])
    note = note_of(lock, MANY[100:2050], 5)
    assert (note.locked, note.came, note.went) == (2000, 50, 100)
    assert any(below(test.id, 5) for test in MANY[2000:2050])
    assert "2,000 ranked tests; 50 added since, 100 removed" in note_lines(note)[0]


def test_a_cover_with_a_hole_asks_for_a_relock() -> None:
    lock = lock_of(MANY)
    fewer = [test for test in MANY if test != lock.order.tests[0]]
    (remark,) = note_of(lock, fewer, 0.23).remarks
    assert remark == (
        "tests were added or removed since the lock, so the share misses 1 templates: "
        "relock with `spyre-ci select --relock`"
    )
    # Where the share never had room for every template, none is missed.
    assert note_of(lock, fewer, 0.1).remarks == ()


def test_another_scope_asks_for_a_relock() -> None:
    (remark,) = note_of(lock_of(MANY), MANY, 5, scope="v2").remarks
    assert remark == (
        "the lock was made for scope v1, and the scope is now v2: relock with `spyre-ci select --relock`"
    )


def test_the_lines_leave_out_what_there_is_none_of() -> None:
    note = OrderNote(
        source="selection.lock.gz",
        locked=1000,
        complete_at={"must-run": 0.0, "files": 0.5, "ops": 0.0, "templates": 7.2},
        reached={"files": (3, 3), "ops": (0, 0), "templates": (50, 72)},
        remarks=("relock",),
    )
    assert note_lines(note) == [
        "selection order: selection.lock.gz, by count, 1,000 ranked tests",
        "every file covered from 0.50 % of the tests, every template from 7.20 %",
        "reached: 3 of 3 files, 50 of 72 templates",
        "relock",
    ]


def test_of_no_tests_there_is_a_note_too() -> None:
    lock = lock_of([])
    note = make_note(lock, [], [], percent=5, by="seconds", source="x", scope_version="")
    assert note_lines(note)[1:3] == ["nothing to cover", "reached: nothing"]


@given(any_tests(), percents)
def test_a_note_comes_back(tests: list[CatalogTest], percent: float) -> None:
    note = note_of(lock_of(tests), tests, percent, scope="other")
    assert convert(json.loads(json.dumps(asdict(note))), OrderNote, where="x", remedy="") == note


@pytest.mark.parametrize(
    "change", [{"by": "luck"}, {"reached": {"files": 3}}, {"locked": "x"}, {"source": ...}]
)
def test_something_else_is_no_note(change: dict[str, Any]) -> None:
    content = {**asdict(OrderNote(source="x")), **change}
    content = {key: value for key, value in content.items() if value is not ...}
    with pytest.raises(BadFileError, match="x: a key is missing or of the wrong kind"):
        convert(content, OrderNote, where="x", remedy="")


MOVED = {"nightly": {"b": "needs 2 cards", "c": "needs 2 cards"}, "weekly": {"d": "long"}}


def test_kept_and_moved_are_what_was_selected() -> None:
    selection = Selection(
        stage=1, percent=5, ids=["a"], bucket="pr", moved=MOVED, beyond={"d": "takes a week"}
    )
    note = selection.tier_note
    assert note == TierNote(bucket="pr", kept=1, moved={"nightly": 2, "weekly": 1}, beyond=1)
    assert note.kept + note.away == selection.selected == 4
    (line,) = tier_note_lines(note)
    assert line == (
        "tier pr: 1 of 4 selected tests run, 2 move to the nightly tier (--tier nightly runs them), "
        "1 moves to the weekly tier (--tier weekly runs them); 1 beyond every tier"
    )
    assert convert(asdict(note), TierNote, where="x", remedy="") == note


def test_a_bucket_that_runs_all_has_nothing_to_say() -> None:
    assert tier_note_lines(TierNote(bucket="weekly", kept=4)) == []
    assert Selection(stage=1, percent=5, ids=["a"]).tier_note is None


@pytest.mark.parametrize("content", [{}, [], {"bucket": "pr", "kept": None, "moved": {}, "beyond": 0}])
def test_a_broken_note_is_no_note(content: object) -> None:
    with pytest.raises(BadFileError, match="x: a key is missing or of the wrong kind"):
        convert(content, TierNote, where="x", remedy="")
