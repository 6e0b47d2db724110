"""Disk space, and removal that nobody sees a part of."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ci.retention.disk import PREFIX, delete, discard, find_trash, measure
from ci.retention.rules import KeptError

MIB = 1 << 20


def full(path: Path) -> Path:
    (path / "deep" / "er").mkdir(parents=True)
    (path / "deep" / "er" / "file").write_bytes(b"x")
    (path / "link").symlink_to("/etc")
    return path


def test_holes_links_and_second_names_take_nothing(tmp_path: Path) -> None:
    big, one = tmp_path / "big", tmp_path / "one"
    big.mkdir()
    one.mkdir()
    (big / "file").write_bytes(os.urandom(MIB))
    size, held = measure(big / "file")
    assert size >= MIB
    assert held == ""
    with (one / "sparse").open("wb") as stream:
        stream.truncate(1 << 30)
    (one / "link").symlink_to(big)
    (one / "loop").symlink_to(one)
    assert measure(one) < (MIB, "")
    before = measure(big)
    os.link(big / "file", big / "again")
    assert measure(big) == before
    with pytest.raises(FileNotFoundError):
        measure(tmp_path / "none")


def test_what_forbids_removal_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full(tmp_path / "d")
    for name, value, why in (
        ("getuid", lambda: tmp_path.stat().st_uid + 1, "contains files of another user"),
        ("walk", refuse, "cannot be read: Permission denied"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"ci.retention.disk.os.{name}", value)
            assert measure(tmp_path / "d")[1] == why
    assert measure(Path("/dev"))[1] == "something is mounted in it"


@pytest.fixture
def _mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a folder of the same file system were mounted in `my runs`, as the kernel says it."""
    listed = tmp_path / "mountinfo"
    where = str(tmp_path / "my runs" / "deep").replace(" ", "\\040")
    listed.write_text(f"36 35 98:0 / {where} rw,noatime - ext4 /dev/sda rw\nshort\n")
    monkeypatch.setattr("ci.retention.disk._MOUNTS", listed)


@pytest.mark.usefixtures("_mounted")
def test_a_mount_of_the_same_file_system_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = full(tmp_path / "my runs")
    (tmp_path / "link").symlink_to(tmp_path)
    for path in (folder, folder / "deep", tmp_path / "link" / "my runs"):
        assert measure(path)[1] == "something is mounted in it"
        with pytest.raises(KeptError, match="something is mounted in it"):
            delete(path)
    assert (folder / "deep" / "er" / "file").is_file()
    assert measure(folder / "deep" / "er")[1] == ""
    monkeypatch.setattr("ci.retention.disk._MOUNTS", tmp_path / "none")
    assert measure(folder)[1] == ""


def test_a_folder_whose_files_cannot_be_looked_at_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lstat(path: Path) -> os.stat_result:
        raise PermissionError(13, "Permission denied", path)

    full(tmp_path / "d")
    with monkeypatch.context() as patch:  # what takes the folder away looks with it, too
        patch.setattr("ci.retention.disk.os.lstat", lstat)
        assert measure(tmp_path / "d")[1] == "cannot be read: Permission denied"


def test_what_is_nested_too_deep_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = full(tmp_path / "d")
    monkeypatch.chdir(folder)
    for _ in range(320):
        Path("d").mkdir()
        os.chdir("d")
    assert measure(folder)[1] == "cannot be read: too many levels of folders"


def refuse(_: Path, onerror: Any) -> tuple[()]:
    onerror(PermissionError(13, "Permission denied"))
    return ()


def test_what_goes_is_gone_at_once_with_all_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, seen, real = full(tmp_path / "d"), [], shutil.rmtree

    def watched(path: Path) -> None:
        seen.append(folder.exists())
        real(path)

    monkeypatch.setattr("ci.retention.disk.shutil.rmtree", watched)
    # As a test leaves a folder that nobody may write to, or open.
    (folder / "deep" / "er").chmod(0o500)
    (folder / "deep").chmod(0o000)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("/etc")
    mode = Path("/etc").stat().st_mode
    for name in ("d", "file", "link"):
        discard(tmp_path / name)
    assert seen == [False]
    assert list(tmp_path.iterdir()) == []
    assert Path("/etc").stat().st_mode == mode
    with pytest.raises(FileNotFoundError):
        discard(tmp_path / "none")


def test_what_is_interrupted_is_finished_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    full(tmp_path / "d")
    others = [f"{PREFIX}mine", f"{PREFIX}{'0' * 31}", f"{PREFIX}{'0' * 33}"]
    for name in others:
        (tmp_path / name).mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("ci.retention.disk.shutil.rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            discard(tmp_path / "d")
    assert not (tmp_path / "d").exists()
    earlier = tmp_path / f"{PREFIX}bare-{'0' * 32}"
    earlier.mkdir()
    assert earlier in find_trash([tmp_path])
    earlier.rmdir()
    (trash,) = find_trash([tmp_path, tmp_path / "none"])
    assert (trash / "deep" / "er" / "file").is_file()
    with monkeypatch.context() as patch:
        patch.setattr("ci.retention.disk.os.getuid", lambda: tmp_path.stat().st_uid + 1)
        assert find_trash([tmp_path]) == []
    delete(trash)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)


def test_what_cannot_be_renamed_is_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    full(tmp_path / "d")
    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(PermissionError):
        discard(tmp_path / "d")
    assert [path.name for path in tmp_path.iterdir()] == ["d"]
    assert (tmp_path / "d" / "deep" / "er" / "file").is_file()
