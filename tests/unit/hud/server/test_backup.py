from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from ci.core.errors import BadFileError, MissingInputError, RunInUseError, UsageError
from ci.hud.callback import Callback
from ci.hud.server.backup import back_up, restore
from ci.hud.server.queries.jobs import count_jobs
from ci.hud.server.record import record_callback
from ci.store.store import InUse, Store


def store_of(path: Path, payload: dict[str, Any], jobs: int) -> Store:
    store = Store(path)
    for number in range(1, jobs + 1):
        workflow = {**payload["workflow"], "run_id": number, "check_run_id": number}
        record_callback(
            store, Callback.model_validate({**payload, "workflow": workflow}), repository="o/r", at=1000.0
        )
    return store


def jobs_in(path: Path) -> int:
    store = Store(path)
    number = count_jobs(store.database)
    store.close()
    return number


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.endswith((".lock", "-wal", "-shm"))}


def test_a_store_in_use_is_copied_and_the_copy_put_in_place(tmp_path: Path, payload: dict[str, Any]) -> None:
    path, copy = tmp_path / "state" / "hud.sqlite", tmp_path / "copy.sqlite"
    store = store_of(path, payload, 3)
    assert back_up(path, copy) == 3
    store_of(path, {**payload, "delivery_id": "later"}, 2).close()
    assert count_jobs(store.database) == 5
    store.close()
    jobs, kept = restore(copy, path, stamp="now")
    assert (jobs, jobs_in(path)) == (3, 3)
    assert kept == tmp_path / "state" / "hud.sqlite.replaced-now"
    assert jobs_in(kept) == 5
    assert left(tmp_path) == {"state", "copy.sqlite"}
    assert copy.stat().st_mode & 0o777 == 0o600


def test_what_stands_in_the_log_alone_is_set_aside_with_it(tmp_path: Path, payload: dict[str, Any]) -> None:
    path, copy = tmp_path / "hud.sqlite", tmp_path / "copy.sqlite"
    store = store_of(path, payload, 1)
    back_up(path, copy)
    store.close()
    # As after a kill: the log was not written into the file.
    killed = store_of(path, {**payload, "delivery_id": "later"}, 4)
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for file in tmp_path.glob("hud.sqlite*"):
        (crashed / file.name).write_bytes(file.read_bytes())
    killed.close()
    assert (crashed / "hud.sqlite-wal").stat().st_size > 0
    _, kept = restore(copy, crashed / "hud.sqlite", stamp="now")
    assert kept is not None
    assert (jobs_in(crashed / "hud.sqlite"), jobs_in(kept)) == (1, 5)


def test_a_restore_where_no_store_was(tmp_path: Path, payload: dict[str, Any]) -> None:
    store_of(tmp_path / "hud.sqlite", payload, 2).close()
    back_up(tmp_path / "hud.sqlite", tmp_path / "copy.sqlite")
    new = tmp_path / "elsewhere" / "hud.sqlite"
    assert restore(tmp_path / "copy.sqlite", new, stamp="now") == (2, None)
    assert jobs_in(new) == 2


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_backup_that_was_cut_is_refused_and_the_store_stays(
    tmp_path: Path, payload: dict[str, Any], share: float
) -> None:
    path, copy = tmp_path / "hud.sqlite", tmp_path / "copy.sqlite"
    store_of(path, payload, 30).close()
    back_up(path, copy)
    whole = copy.read_bytes()
    copy.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(BadFileError) as caught:
        restore(copy, path, stamp="now")
    assert caught.value.where == str(copy)
    assert jobs_in(path) == 30
    assert left(tmp_path) == {"hud.sqlite", "copy.sqlite"}


def test_a_backup_with_a_page_of_noise_is_refused(tmp_path: Path, payload: dict[str, Any]) -> None:
    path, copy = tmp_path / "hud.sqlite", tmp_path / "copy.sqlite"
    store_of(path, payload, 200).close()
    back_up(path, copy)
    content = bytearray(copy.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = b"\xa5" * 4096
    copy.write_bytes(content)
    with pytest.raises(BadFileError, match=r"no whole HUD store|cannot be copied"):
        restore(copy, path, stamp="now")


def test_another_database_and_a_newer_one_are_refused(tmp_path: Path, payload: dict[str, Any]) -> None:
    other = tmp_path / "other.sqlite"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE something (a)")
    connection.close()
    with pytest.raises(BadFileError, match="no such table: crcr_workflow_job"):
        restore(other, tmp_path / "hud.sqlite", stamp="now")
    store_of(tmp_path / "newer.sqlite", payload, 1).close()
    connection = sqlite3.connect(tmp_path / "newer.sqlite")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(BadFileError, match="schema 99"):
        restore(tmp_path / "newer.sqlite", tmp_path / "hud.sqlite", stamp="now")
    assert not (tmp_path / "hud.sqlite").exists()


def test_a_store_in_use_is_not_replaced(tmp_path: Path, payload: dict[str, Any]) -> None:
    path, copy = tmp_path / "hud.sqlite", tmp_path / "copy.sqlite"
    store = store_of(path, payload, 1)
    back_up(path, copy)
    with pytest.raises(RunInUseError, match="is open: a server or a run uses it"):
        restore(copy, path, stamp="now")
    store.close()
    restore(copy, path, stamp="now")


def test_a_store_that_is_being_restored_is_not_opened(tmp_path: Path) -> None:
    with InUse(tmp_path / "hud.sqlite", alone=True), pytest.raises(RunInUseError, match="being restored"):
        Store(tmp_path / "hud.sqlite")
    Store(tmp_path / "hud.sqlite").close()


def test_a_backup_never_replaces_the_store_or_a_better_one(tmp_path: Path, payload: dict[str, Any]) -> None:
    path, copy = tmp_path / "hud.sqlite", tmp_path / "copy.sqlite"
    store_of(path, payload, 2).close()
    with pytest.raises(UsageError, match="replace the store itself"):
        back_up(path, tmp_path / "." / "hud.sqlite")
    with pytest.raises(UsageError, match="is the store itself"):
        restore(path, path, stamp="now")
    back_up(path, copy)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(BadFileError):
        back_up(path, copy)
    path.unlink()
    assert restore(copy, path, stamp="now")[0] == 2


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="no HUD store yet"):
        back_up(tmp_path / "hud.sqlite", tmp_path / "copy.sqlite")
    with pytest.raises(MissingInputError, match="no such backup"):
        restore(tmp_path / "gone", tmp_path / "hud.sqlite", stamp="now")
