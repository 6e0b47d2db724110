"""What is imported fills what no run has measured, and old stores take it."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from ci.core.errors import BadFileError, MissingInputError
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report import history_store
from ci.report.history import DAY_S, export_durations, prune, record
from ci.report.history_imports import forget_imports, import_classes, import_durations
from ci.report.history_overview import DeviceHistory, overview
from ci.report.history_store import VERSION
from test_selection.durations import Durations

from .conftest import T0, identity

TOLD = Durations(tests={"a": 5.0, "b": 6.0}, files={"f.py": 7.0}, spread={"a": 8.0}, classes={"f.py::T": 9.0})


def passed(seconds: float, name: str = "a") -> Result:
    return Result(id=name, verdict=Verdict.PASSED, seconds=seconds, attempts=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "history.sqlite"


def test_what_was_imported_is_exported(path: Path) -> None:
    import_durations(path, TOLD, device="spyre")
    assert export_durations(path, device="spyre") == TOLD


def test_importing_twice_changes_nothing_and_anew_replaces_by_name(path: Path) -> None:
    import_durations(path, TOLD, device="spyre")
    import_durations(path, TOLD, device="spyre")
    assert export_durations(path, device="spyre") == TOLD
    import_durations(path, Durations(tests={"a": 1.0}), device="spyre")
    assert export_durations(path, device="spyre").tests == {"a": 1.0, "b": 6.0}
    assert export_durations(path, device="spyre").spread == {}


def test_a_run_of_our_own_goes_before_it_with_its_own_spread(path: Path) -> None:
    import_durations(path, TOLD, device="spyre")
    record(path, identity(), [passed(1.0)], {"f.py": [2.0]})
    found = export_durations(path, device="spyre")
    assert found.tests == {"a": 1.0, "b": 6.0}
    assert found.spread == {"a": 1.0}
    assert found.files == {"f.py": 2.0}


def test_the_spread_is_the_95th_percentile_of_the_last_ten_runs(path: Path) -> None:
    for number in range(12):
        who = replace(identity(), run_id=number + 1, started_at=T0 + number)
        record(path, who, [passed(float(number))], {})
    assert export_durations(path).spread == {"a": 11.0}


def test_another_devices_seconds_are_not_ours_but_classes_are_everybodys(path: Path) -> None:
    import_durations(path, TOLD, device="cpu")
    assert export_durations(path, device="spyre") == Durations(classes=TOLD.classes)
    assert export_durations(path) == TOLD


def test_classes_are_replaced_by_name(path: Path) -> None:
    import_classes(path, {"a.py::T": 1.0, "a.py::\udc80": 2.0})
    import_classes(path, {"a.py::T": 3.0})
    assert export_durations(path).classes == {"a.py::T": 3.0, "a.py::\udc80": 2.0}


def test_pruning_runs_leaves_what_was_imported(path: Path) -> None:
    import_durations(path, TOLD, device="spyre")
    record(path, identity(), [passed(1.0)], {})
    assert prune(path, keep_days=1, now=T0 + 9 * DAY_S, dry_run=True) == 1
    assert export_durations(path, device="spyre").tests["a"] == 1.0
    assert prune(path, keep_days=1, now=T0 + 9 * DAY_S) == 1
    assert export_durations(path, device="spyre") == TOLD


def test_imports_can_be_forgotten_and_counted_before(path: Path) -> None:
    import_durations(path, TOLD, device="spyre")
    assert forget_imports(path, dry_run=True) == 4
    assert export_durations(path) == TOLD
    assert forget_imports(path) == 4
    assert export_durations(path) == Durations()


def test_a_store_of_version_1_opens_and_keeps_its_runs(path: Path) -> None:
    path.parent.mkdir()
    store = sqlite3.connect(path)
    for statement in history_store._STEPS[0].split(";"):
        store.execute(statement)
    store.execute("INSERT INTO runs VALUES (1, 'r', 1, 1, '', 'spyre', NULL, 5, '', '', 0)")
    store.execute("INSERT INTO tests VALUES (1, 'a')")
    store.execute("INSERT INTO results VALUES (1, 1, 'passed', 2.5, NULL, 1)")
    store.execute("PRAGMA user_version = 1")
    store.commit()
    store.close()
    assert export_durations(path, device="spyre").tests == {"a": 2.5}
    import_classes(path, {"a.py::T": 1.0})
    assert export_durations(path).classes == {"a.py::T": 1.0}


@pytest.mark.parametrize("version", [-1, VERSION + 1, 2**31 - 1])
def test_no_other_version_is_taken(path: Path, version: int) -> None:
    import_classes(path, {})
    store = sqlite3.connect(path)
    store.execute(f"PRAGMA user_version = {version}")
    store.close()
    with pytest.raises(BadFileError, match=f"is a history of version {version}, not {VERSION}"):
        import_classes(path, {})


def test_another_programs_database_is_left_as_it_is(path: Path) -> None:
    path.parent.mkdir()
    store = sqlite3.connect(path)
    store.execute("CREATE TABLE bookmarks (url TEXT)")
    store.close()
    with pytest.raises(BadFileError, match="is a database of another program") as caught:
        import_classes(path, {"a.py::T": 1.0})
    assert "set `history.path` to another file" in str(caught.value)
    store = sqlite3.connect(path)
    assert store.execute("SELECT name FROM sqlite_master").fetchall() == [("bookmarks",)]
    store.close()


def test_an_empty_file_becomes_a_history(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    import_classes(path, {"a.py::T": 1.0})
    assert export_durations(path).classes == {"a.py::T": 1.0}


def test_the_overview_counts_by_device(path: Path) -> None:
    import_durations(path, TOLD, device="cpu")
    record(path, identity(), [passed(1.0), Result(id="b", verdict=Verdict.NOT_RUN)], {})
    record(path, replace(identity(), run_id=8, started_at=T0 + 5), [passed(1.0)], {})
    assert overview(path) == (
        [
            DeviceHistory(device="cpu", imported=2),
            DeviceHistory(device="spyre", runs=2, tests=1, oldest=T0, newest=T0 + 5),
        ],
        1,
    )


def test_there_is_nothing_to_show_or_forget_before_the_first_run(path: Path) -> None:
    for call in (overview, forget_imports):
        with pytest.raises(MissingInputError, match="there is no history yet") as caught:
            call(path)
        assert "spyre-ci history import" in str(caught.value)
    assert not path.exists()
