"""The last look before something goes: under its lock, and only if it is as it was."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ci.core.errors import RunInUseError
from ci.core.locks import run_lock
from ci.report.released import Released
from ci.retention import removing
from ci.retention.caches import find_caches, find_worktrees
from ci.retention.folders import RUNS, Look, find_folders
from ci.retention.removing import KeptError, is_in_use, remove_file, remove_folder, remove_tree
from ci.retention.things import Thing
from tests.retention_world import DAY_S, NOW, make_record, make_run, make_tree, put

LOOK = Look(user=os.getuid(), mounts=frozenset(), released=Released())


def old_run(runs: Path) -> Thing:
    make_run(runs, "old", 90)
    make_run(runs, "young", 1)
    return next(one for one in find_folders(runs, LOOK)[RUNS].things if one.name == "old")


def test_a_run_goes(tmp_path: Path) -> None:
    remove_folder(old_run(tmp_path), LOOK, now=NOW)
    assert [path.name for path in tmp_path.iterdir()] == ["young"]


def test_one_that_somebody_began_to_work_in_stays(tmp_path: Path) -> None:
    thing = old_run(tmp_path)
    with run_lock(tmp_path / "old", alone=False):
        assert is_in_use(tmp_path / "old")
        with pytest.raises(KeptError, match="in use: is being run right now by process"):
            remove_folder(thing, LOOK, now=NOW)
    assert not is_in_use(tmp_path / "old")
    assert (tmp_path / "old" / "run.json").is_file()


def test_whoever_wants_to_work_in_it_while_it_is_looked_at_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thing = old_run(tmp_path)

    def at_work(*_: object) -> str:
        with pytest.raises(RunInUseError), run_lock(tmp_path / "old", alone=False):
            pytest.fail("two had it")
        return ""

    monkeypatch.setattr(removing, "look_again", at_work)
    remove_folder(thing, LOOK, now=NOW)
    assert not (tmp_path / "old").exists()


def test_one_that_got_a_report_to_send_stays(tmp_path: Path) -> None:
    thing = old_run(tmp_path)
    put(tmp_path / "old" / "outbox" / "000001-x.json", "report", {})
    with pytest.raises(KeptError, match="outbox"):
        remove_folder(thing, LOOK, now=NOW)


def test_one_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    thing = old_run(tmp_path)
    remove_folder(thing, LOOK, now=NOW)
    with pytest.raises(KeptError, match="is gone already"):
        remove_folder(thing, LOOK, now=NOW)
    assert not (tmp_path / "old").exists()


def test_one_that_became_a_link_stays(tmp_path: Path) -> None:
    thing = old_run(tmp_path)
    (tmp_path / "old").rename(tmp_path / "moved")
    (tmp_path / "old").symlink_to(tmp_path / "moved")
    with pytest.raises(KeptError, match="is a link now"):
        remove_folder(thing, LOOK, now=NOW)
    assert (tmp_path / "moved" / "run.json").is_file()


def test_without_locks_a_young_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def no_locks(*_: object, **__: object) -> Iterator[bool]:
        yield False

    thing = old_run(tmp_path)
    monkeypatch.setattr(removing, "run_lock", no_locks)
    with pytest.raises(KeptError, match="has no locks"):
        remove_folder(thing, LOOK, now=NOW - 89.5 * DAY_S)
    remove_folder(thing, LOOK, now=NOW)
    assert not (tmp_path / "old").exists()


def test_a_record_that_was_written_anew_stays(tmp_path: Path) -> None:
    path = make_record(tmp_path, 1, 90)
    (thing,) = find_caches(tmp_path, LOOK).things
    path.touch()
    with pytest.raises(KeptError, match="used meanwhile"):
        remove_file(thing)
    (thing,) = find_caches(tmp_path, LOOK).things
    remove_file(thing)
    assert not path.exists()


def test_a_tree_that_was_used_meanwhile_or_whose_repository_is_in_use_stays(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, "a" * 40, 90)
    (thing,) = find_worktrees(tmp_path, LOOK).things
    with (tree.parent.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(KeptError, match="its repository is in use"):
            remove_tree(thing)
    tree.with_name(f"{tree.name}.whole").touch()
    with pytest.raises(KeptError, match="used meanwhile"):
        remove_tree(thing)
    (thing,) = find_worktrees(tmp_path, LOOK).things
    remove_tree(thing)
    assert list(tree.parent.iterdir()) == []


def test_asking_who_works_in_a_run_writes_nothing(tmp_path: Path) -> None:
    old_run(tmp_path)
    assert not is_in_use(tmp_path / "old")
    assert not (tmp_path / "old" / "run.lock").exists()
    (tmp_path / "old" / "run.lock").symlink_to(tmp_path / "elsewhere")
    assert not is_in_use(tmp_path / "old")
    assert not (tmp_path / "elsewhere").exists()
