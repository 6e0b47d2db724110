"""What the state folder holds for the next run: known by names that only we give."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci.core.shared_folders import WHOLE, Kept
from ci.report.released import Released
from ci.retention.caches import find_caches, find_worktrees, is_record
from ci.retention.folders import Look
from ci.retention.removing import KeptError, remove_file
from ci.runner.checkout import _mark
from ci.runner.collect import CollectCache
from tests.retention_world import DAY_S, NOW, make_record, make_tree

LOOK = Look(user=os.getuid(), mounts=frozenset(), released=Released())


def test_nothing_is_no_error(tmp_path: Path) -> None:
    assert list(find_caches(tmp_path, LOOK).things) == []
    assert list(find_worktrees(tmp_path, LOOK).things) == []


def test_what_the_cache_of_collections_writes_is_found(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").touch()
    folder = tmp_path / "state" / "cache" / "collect"
    CollectCache(folder=folder, root=tmp_path, tests=tmp_path, key="k").put("test_a.py", {"modules": []})
    (one,) = find_caches(tmp_path / "state", LOOK).things
    assert is_record(one)
    assert Path(one.path).is_file()


def test_archives_half_unpacked_ones_and_what_bisects_built(tmp_path: Path) -> None:
    for name in (f"archive-{'0' * 16}", ".unpacking-ab_12", "mine"):
        (tmp_path / "sources" / name).mkdir(parents=True)
    (tmp_path / "bisect" / "0123456789ab" / ("c" * 40)).mkdir(parents=True)
    (tmp_path / "bisect" / "0123456789ab" / f"{'d' * 40}.wheel").mkdir()
    (tmp_path / "bisect" / "0123456789ab" / f"{'c' * 40}.lock").touch()
    (tmp_path / "bisect" / f"build-{'c' * 12}.log").touch()
    (tmp_path / "bisect" / "0123456789ab" / "theirs").mkdir()
    found = find_caches(tmp_path, LOOK)
    assert [one.name for one in found.things] == [
        ".unpacking-ab_12", f"archive-{'0' * 16}", f"0123456789ab/{'c' * 40}",
        f"0123456789ab/{'d' * 40}.wheel",
    ]  # fmt: skip
    assert not any(map(is_record, found.things))
    assert [Path(one.path).name for one in found.foreign] == ["mine", "theirs"]


def test_what_a_bisect_built_is_as_young_as_its_last_use(tmp_path: Path) -> None:
    folder = tmp_path / "bisect" / "0123456789ab" / ("c" * 40)
    folder.mkdir(parents=True)
    (folder / WHOLE).touch()
    os.utime(folder / WHOLE, (NOW, NOW))
    os.utime(folder, (NOW - 90 * DAY_S, NOW - 90 * DAY_S))
    (one,) = find_caches(tmp_path, LOOK).things
    assert one.at == NOW
    # Used between the look and the removal.
    os.utime(folder / WHOLE, (NOW + 9, NOW + 9))
    with pytest.raises(KeptError, match="used meanwhile"):
        remove_file(one)
    os.utime(folder / WHOLE, (NOW, NOW))
    remove_file(one)
    assert not folder.exists()


def test_what_a_bisect_uses_or_builds_stays(tmp_path: Path) -> None:
    folder = tmp_path / "bisect" / "0123456789ab" / ("c" * 40)
    kept = Kept(folder, stop=lambda: False, timeout_s=1)
    folder.mkdir()
    kept.done()
    folder.with_name(f"{folder.name}.wheel").mkdir()
    things = find_caches(tmp_path, LOOK).things
    assert len(things) == 2
    for one in things:
        with pytest.raises(KeptError, match="a bisect makes or uses it"):
            remove_file(one)
    kept.let_go()
    for one in things:
        remove_file(one)
    assert [path.name for path in folder.parent.iterdir()] == [f"{folder.name}.lock"]


def test_what_shells_and_cut_off_reads_of_reproduce_left_goes_with_the_caches(tmp_path: Path) -> None:
    for name in ("shell-a1_b2", "unpacked-ab_12", "mine"):
        (tmp_path / "reproduce" / name).mkdir(parents=True)
    found = find_caches(tmp_path, LOOK)
    assert [thing.name for thing in found.things] == ["shell-a1_b2", "unpacked-ab_12"]
    assert [Path(one.path).name for one in found.foreign] == ["mine"]


def test_what_has_no_name_of_ours_is_foreign(tmp_path: Path) -> None:
    record = make_record(tmp_path, 1, 9)
    (record.parent / "notes.json.gz").touch()
    (record.parent / f"{2:064x}.json.gz").symlink_to("/etc/passwd")
    found = find_caches(tmp_path, LOOK)
    assert [one.path for one in found.things] == [str(record)]
    assert sorted(Path(one.path).name for one in found.foreign) == [f"{2:064x}.json.gz", "notes.json.gz"]


def test_a_linked_cache_is_not_followed(tmp_path: Path) -> None:
    make_record(tmp_path / "elsewhere", 1, 9)
    (tmp_path / "state" / "cache").mkdir(parents=True)
    (tmp_path / "state" / "cache" / "collect").symlink_to(tmp_path / "elsewhere" / "cache" / "collect")
    assert list(find_caches(tmp_path / "state", LOOK).things) == []


def test_a_tree_is_as_old_as_its_last_use(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, "a" * 40, 50)
    (one,) = find_worktrees(tmp_path, LOOK).things
    assert one.at == pytest.approx(NOW - 50 * DAY_S, abs=1)
    mark = _mark(tree)  # as a checkout dates it
    assert mark.is_file()
    os.utime(mark, (NOW, NOW))
    (one,) = find_worktrees(tmp_path, LOOK).things
    assert one.at == NOW


def test_a_tree_that_was_never_whole_is_one_too(tmp_path: Path) -> None:
    _mark(make_tree(tmp_path, "a" * 40, 50)).unlink()
    (tmp_path / "sources" / f"git-{'1' * 16}" / "trees" / "mine").mkdir()
    found = find_worktrees(tmp_path, LOOK)
    assert len(found.things) == 1
    assert [Path(one.path).name for one in found.foreign] == ["mine"]
