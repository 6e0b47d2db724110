"""What the state folder keeps for later runs: recognized by names that only spyre-ci gives."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from ci.core.shared_folders import WHOLE, Kept
from ci.retention.caches import find_caches
from ci.retention.rules import Item, KeptError
from ci.runner.checkout import _mark
from ci.runner.collect import CollectCache
from tests.retention_world import DAY_S, NOW, make_record, make_tree

BUILD = f"0123456789ab/{'c' * 40}"


def found(state: Path, now: float = NOW) -> list[Item]:
    return find_caches(state, now=now)


def remove(item: Item) -> None:
    item.remove(item)


def test_entries_are_known_by_their_names(tmp_path: Path) -> None:
    assert found(tmp_path) == []
    ours = [
        f"sources/archive-{'0' * 16}", "sources/.unpacking-ab_12", f"bisect/{BUILD}",
        f"bisect/0123456789ab/{'d' * 40}.wheel", "reproduce/shell-a1_b2", "reproduce/unpacked-ab_12",
    ]  # fmt: skip
    theirs = ["sources/mine", f"bisect/build-{'c' * 12}.log", f"bisect/{BUILD}.lock", "reproduce/mine"]
    for name in (*ours, *theirs, "bisect/0123456789ab/theirs"):
        (tmp_path / name).mkdir(parents=True)
    record, tree = make_record(tmp_path, 1, 9), make_tree(tmp_path, "a" * 40, 50)
    (record.parent / f"{2:064x}.json.gz").symlink_to("/etc/passwd")
    (tmp_path / "bisect" / "fedcba98").symlink_to(tmp_path / "bisect" / "0123456789ab")
    (tree.parent / "mine").mkdir()
    for loop in (f"sources/archive-{'1' * 16}", "reproduce/shell-loop", f"{tree.parent}/{'b' * 40}"):
        (tmp_path / loop).symlink_to(tmp_path / loop)
    seen = {str(Path(one.path).relative_to(tmp_path)): one.kind for one in found(tmp_path)}
    assert seen == {
        **dict.fromkeys(ours, "caches"),
        str(record.relative_to(tmp_path)): "caches",
        str(tree.relative_to(tmp_path)): "worktrees",
    }


def test_what_the_cache_of_collected_tests_writes_is_found(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").touch()
    folder = tmp_path / "state" / "cache" / "collect"
    CollectCache(folder=folder, root=tmp_path, tests=tmp_path, key="k").put("test_a.py", {"modules": []})
    assert len(found(tmp_path / "state")) == 1


@pytest.mark.parametrize("kind", ["record", "build", "shell", "tree"])
def test_an_entry_is_as_old_as_its_last_use_and_stays_if_used_meanwhile(tmp_path: Path, kind: str) -> None:
    if kind == "record":
        mark = path = make_record(tmp_path, 1, 90)
    elif kind == "build":
        path = tmp_path / "bisect" / BUILD
        path.mkdir(parents=True)
        mark = path / WHOLE
        mark.touch()
        for one in (mark, path):
            os.utime(one, (NOW - 90 * DAY_S, NOW - 90 * DAY_S))
    elif kind == "shell":
        path = tmp_path / "reproduce" / "shell-a1"
        mark = path / "workspace" / "mine.py"
        mark.parent.mkdir(parents=True)
        mark.touch()
        for one in (mark, mark.parent, path):
            os.utime(one, (NOW - 90 * DAY_S, NOW - 90 * DAY_S))
    else:
        path = make_tree(tmp_path, "a" * 40, 90)
        mark = _mark(path)  # as a checkout dates it
    (item,) = found(tmp_path)
    assert (item.at, item.held) == (NOW - 90 * DAY_S, "")
    os.utime(mark, (NOW - DAY_S + 9, NOW - DAY_S + 9))
    with pytest.raises(KeptError, match="used meanwhile"):
        remove(item)
    (item,) = found(tmp_path)
    assert (item.at, item.held) == (NOW - DAY_S + 9, "used within the last day")
    remove(item)
    with pytest.raises(KeptError, match="removed meanwhile"):
        remove(item)
    assert not path.exists()
    assert not mark.exists()


def test_a_run_that_has_not_ended_keeps_all_that_it_may_read(tmp_path: Path) -> None:
    make_record(tmp_path, 1, 90)
    make_tree(tmp_path, "a" * 40, 90)
    (tmp_path / "sources" / f"archive-{'0' * 16}").mkdir()
    os.utime(tmp_path / "sources" / f"archive-{'0' * 16}", (0, 0))
    held = [(one.kind, one.held) for one in find_caches(tmp_path, now=NOW, running=True)]
    why = "a run that has not ended may use it"
    assert held == [("caches", ""), ("caches", why), ("worktrees", why)]


def test_something_mounted_since_it_was_found_keeps_a_worktree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = make_tree(tmp_path, "a" * 40, 90)
    (item,) = found(tmp_path)
    monkeypatch.setattr("ci.retention.disk.mount_points", lambda: [str(tree / "test")])
    with pytest.raises(KeptError, match="something is mounted in it"):
        remove(item)
    assert _mark(tree).exists()


def test_an_entry_that_cannot_be_looked_into_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.lstat

    def lstat(path: Path) -> os.stat_result:
        if path.name == WHOLE:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    make_tree(tmp_path, "a" * 40, 90)
    monkeypatch.setattr(Path, "lstat", lstat)
    assert [one.at for one in found(tmp_path)] == [NOW - 90 * DAY_S]


def test_what_a_bisect_makes_or_uses_stays(tmp_path: Path) -> None:
    folder = tmp_path / "bisect" / BUILD
    kept = Kept(folder, stop=lambda: False, timeout_s=1)
    folder.mkdir()
    kept.done()
    folder.with_name(f"{folder.name}.wheel").mkdir()
    items = found(tmp_path)
    assert len(items) == 2
    for item in items:
        with pytest.raises(KeptError, match="in use"):
            remove(item)
    kept.let_go()
    for item in items:
        remove(item)
    assert [path.name for path in folder.parent.iterdir()] == [f"{folder.name}.lock"]


def test_a_worktree_whose_repository_is_in_use_stays(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, "a" * 40, 90)
    (item,) = found(tmp_path)
    with (tree.parent.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(KeptError, match="in use"):
            remove(item)
    remove(item)
    assert list(tree.parent.iterdir()) == []
