"""Bytes on the disk: holes, files of several names, and what forbids to remove a folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci.retention.decide import space
from ci.retention.disk import measure, mount_points
from ci.retention.things import Thing

ME = os.getuid()


def size(path: Path) -> int:
    return measure(path, user=ME, mounts=frozenset()).own


def test_holes_take_nothing(tmp_path: Path) -> None:
    (tmp_path / "full").write_bytes(os.urandom(1 << 20))
    with (tmp_path / "sparse").open("wb") as stream:
        stream.truncate(1 << 30)
    assert size(tmp_path / "full") >= 1 << 20
    assert size(tmp_path / "sparse") < 1 << 20


def test_a_file_of_two_names_in_one_folder_counts_once(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_bytes(os.urandom(1 << 20))
    once = size(tmp_path / "d")
    os.link(tmp_path / "d" / "a", tmp_path / "d" / "b")
    assert size(tmp_path / "d") == once


def test_a_name_elsewhere_keeps_the_space(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "file").write_bytes(os.urandom(1 << 20))
    os.link(tmp_path / "a" / "file", tmp_path / "b" / "file")
    things = []
    for name in "ab":
        seen = measure(tmp_path / name, user=ME, mounts=frozenset())
        things.append(Thing(kind="runs", name=name, path=name, at=0.0, own=seen.own, shared=seen.shared))
        assert things[-1].bytes >= 1 << 20
    assert space(things[:1]) < 1 << 20
    assert space(things) >= 1 << 20


def test_a_link_is_only_itself(tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    (tmp_path / "big" / "file").write_bytes(os.urandom(1 << 20))
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "link").symlink_to(tmp_path / "big")
    (tmp_path / "d" / "loop").symlink_to(tmp_path / "d")
    assert size(tmp_path / "d") < 1 << 20


def test_files_of_another_user_are_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert measure(tmp_path, user=ME + 1, mounts=frozenset()).held == ("holds files of another user",)
    assert measure(tmp_path, user=ME, mounts=frozenset()).held == ()


def test_a_mount_point_is_told(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    seen = measure(tmp_path, user=ME, mounts=frozenset({str(tmp_path / "data")}))
    assert seen.held == ("something is mounted in it",)


def test_mount_points_are_read_as_the_kernel_writes_them(tmp_path: Path) -> None:
    file = tmp_path / "mountinfo"
    file.write_text("36 35 98:0 / /srv/my\\040runs rw - ext4 /dev/sda rw\nshort\n")
    assert mount_points(file) == {"/srv/my runs"}
    assert mount_points(tmp_path / "none") == frozenset()


def test_what_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        measure(tmp_path / "none", user=ME, mounts=frozenset())


def test_what_cannot_be_looked_into_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("ci.retention.disk.os.scandir", refuse)
    assert measure(tmp_path, user=ME, mounts=frozenset()).held == (
        "cannot be looked into: Permission denied",
    )
