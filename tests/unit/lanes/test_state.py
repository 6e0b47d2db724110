"""The file of the worker: refused where it is another's, taken up where it is its own."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from ci.core.errors import BadFileError, MissingInputError
from ci.lanes.noted import history
from ci.lanes.state import State, StateAwayError, read_state
from ci.lanes.store import Store

WRITE = "INSERT INTO lanes (lane) VALUES ('one')"


def spoil(path: Path, statement: str) -> None:
    store = sqlite3.connect(path)
    store.execute(statement)
    store.commit()
    store.close()


def refused(path: Path) -> str:
    with pytest.raises(BadFileError) as reading, read_state(path):
        pass
    with pytest.raises(BadFileError) as writing, State(path).change():
        pass
    assert str(reading.value) == str(writing.value)
    assert writing.value.exit_code == 2
    return str(writing.value)


def test_a_change_is_whole_or_not_at_all(tmp_path: Path) -> None:
    state = State(tmp_path / "deep" / "lanes.sqlite")
    with contextlib.suppress(ZeroDivisionError), state.change() as open_:
        open_.execute(WRITE)
        raise ZeroDivisionError
    with state.look() as open_:
        assert open_.execute("SELECT count(*) FROM lanes").fetchone()[0] == 0
    with state.change() as open_:
        open_.execute(WRITE)
    state.close()
    with read_state(tmp_path / "deep" / "lanes.sqlite") as open_:
        assert open_.execute("SELECT count(*) FROM lanes").fetchone()[0] == 1


def test_a_state_of_a_newer_version_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "lanes.sqlite"
    # Until it is closed, what SQLite has in its log may be written to the file at any time.
    with contextlib.closing(Store(path)) as store:
        store.note_lanes({"one": "hourly"})
    spoil(path, "PRAGMA user_version = 9")
    kept = path.read_bytes()
    said = refused(path)
    assert "is a state of lanes of version 9, not 1" in said
    assert "use the spyre-ci that wrote it; or set `state` to another folder" in said
    assert path.read_bytes() == kept


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lanes.sqlite"
    spoil(path, "CREATE TABLE recipes (name TEXT)")
    assert "is a database of another program, not a state of lanes" in refused(path)


@pytest.mark.parametrize("content", [b"no database at all, but long enough to be read as one" * 50])
def test_what_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lanes.sqlite"
    path.write_bytes(content)
    assert "is no state of lanes: file is not a database" in refused(path)
    assert path.read_bytes() == content


def test_a_state_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lanes.sqlite"
    store = Store(path)
    store.note_lanes({f"lane-{number}": "x" * 500 for number in range(100)})
    store.close()
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(BadFileError, match="is no state of lanes"):
        Store(path).known(0)


def test_a_state_that_was_never_made_is_no_history(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="there is no state of lanes yet"):
        history(tmp_path / "lanes.sqlite", lane=None, most=1)


def test_a_disk_that_is_full_is_said_and_nothing_of_it_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "lanes.sqlite"
    store = Store(path)
    store.note_lanes({"one": "hourly"})
    with store._state.look() as open_:
        pages = open_.execute("PRAGMA page_count").fetchone()[0]
        open_.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StateAwayError, match="database or disk is full") as caught:
        store.note_lanes({f"lane-{number}": "x" * 500 for number in range(100)})
    assert (caught.value.exit_code, "free space on its disk" in str(caught.value)) == (3, True)
    # The next one opens it anew and has what was noted before.
    assert list(store.known(0)) == ["one"]
    store.close()
