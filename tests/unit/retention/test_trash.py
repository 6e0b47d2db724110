"""What goes is gone at once for whoever looks, and what was cut off is finished."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from ci.retention.trash import NOTE, PREFIX, NotRemovedError, discard, empty, left_over
from tests.retention_world import put


def full(path: Path) -> Path:
    (path / "deep" / "er").mkdir(parents=True)
    (path / "deep" / "er" / "file").write_bytes(b"x")
    (path / "link").symlink_to("/etc")
    return path


def test_a_folder_goes_with_all_that_is_in_it(tmp_path: Path) -> None:
    discard(full(tmp_path / "d"))
    assert list(tmp_path.iterdir()) == []
    assert Path("/etc").is_dir()


def test_a_file_goes(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    discard(tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


def test_a_link_goes_and_not_what_it_leads_to(tmp_path: Path) -> None:
    full(tmp_path / "kept")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    discard(tmp_path / "link")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept" / "deep").is_dir()


def test_what_is_gone_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        discard(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


def test_whoever_looks_while_it_goes_sees_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    real = shutil.rmtree

    def watched(path: Any, *rest: Any, **more: Any) -> None:
        seen.append((tmp_path / "d").exists())
        real(path, *rest, **more)

    monkeypatch.setattr("ci.retention.trash.shutil.rmtree", watched)
    discard(full(tmp_path / "d"))
    assert seen
    assert not any(seen)


def test_a_removal_that_is_cut_off_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    full(tmp_path / "d")
    with monkeypatch.context() as patch:
        patch.setattr("ci.retention.trash.shutil.rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            discard(tmp_path / "d")
    assert not (tmp_path / "d").exists()
    (trash,) = left_over(tmp_path)
    assert (trash / "it" / "deep" / "er" / "file").is_file()
    empty(trash)
    assert list(tmp_path.iterdir()) == []


def test_one_that_was_cut_off_before_it_moved_anything_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    full(tmp_path / "d")
    monkeypatch.setattr(Path, "write_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        discard(tmp_path / "d")
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_a_folder_of_that_name_without_our_note_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}mine").mkdir()
    put(tmp_path / f"{PREFIX}noted" / NOTE, "trash", {})
    put(tmp_path / f"{PREFIX}more" / NOTE, "trash", {})
    (tmp_path / f"{PREFIX}more" / "thesis.txt").write_text("mine")
    put(tmp_path / f"{PREFIX}other" / NOTE, "plan", {})
    (tmp_path / f"{PREFIX}file").touch()
    (tmp_path / f"{PREFIX}cut").mkdir()
    (tmp_path / f"{PREFIX}cut" / NOTE).touch()  # as a machine's end leaves it
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / f"{PREFIX}noted")
    assert [path.name for path in left_over(tmp_path)] == [f"{PREFIX}cut", f"{PREFIX}noted"]


def test_what_cannot_be_moved_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full(tmp_path / "d")

    def refuse(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(NotRemovedError, match="cannot be removed: Operation not permitted") as caught:
        discard(tmp_path / "d")
    assert caught.value.exit_code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_what_cannot_be_deleted_is_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full(tmp_path / "d")
    real = os.unlink

    def refuse(path: Any, **more: Any) -> None:
        if str(path).endswith("file"):
            raise PermissionError(1, "Operation not permitted")
        real(path, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        with pytest.raises(NotRemovedError, match="not all of it can be deleted: Operation not permitted"):
            discard(tmp_path / "d")
    assert not (tmp_path / "d").exists()
    (trash,) = left_over(tmp_path)
    empty(trash)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_a_test_made_unwritable_goes(tmp_path: Path) -> None:
    full(tmp_path / "d")
    (tmp_path / "d" / "deep" / "er").chmod(0o500)
    (tmp_path / "d" / "deep").chmod(0o000)
    discard(tmp_path / "d")
    assert list(tmp_path.iterdir()) == []


def no_room(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture(params=["folder", "note"])
def full_disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk with no room for another folder, or for what a file holds."""
    where, name = (tempfile, "mkdtemp") if request.param == "folder" else (Path, "write_text")
    monkeypatch.setattr(where, name, no_room)


@pytest.mark.usefixtures("full_disk")
def test_from_a_full_disk_a_folder_goes(tmp_path: Path) -> None:
    discard(full(tmp_path / "d"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("full_disk")
def test_what_is_cut_off_on_a_full_disk_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen = shutil.rmtree, []

    def interrupted(path: Path, *rest: Any, **more: Any) -> None:
        if (path / "deep").exists():
            seen.append(path)
            raise KeyboardInterrupt
        real(path, *rest, **more)

    full(tmp_path / "d")
    (tmp_path / f"{PREFIX}bare-mine").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("ci.retention.trash.shutil.rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            discard(tmp_path / "d")
    assert seen == left_over(tmp_path)
    empty(seen[0])
    assert [path.name for path in tmp_path.iterdir()] == [f"{PREFIX}bare-mine"]
