"""A process is known by where and since when it is, and not by its number alone."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ci.core.operating_system import has_proc
from ci.core.process_identity import ProcessIdentity, has_open, identify_process, read_identity


def proc(folder: Path, stat: str) -> Path:
    (folder / "7").mkdir()
    (folder / "7" / "stat").write_text(stat)
    (folder / "self" / "ns").mkdir(parents=True)
    (folder / "self" / "ns" / "pid").symlink_to("pid:[1]")
    return folder


@pytest.mark.parametrize("name", ["python", "a b", "a) R 1 2 3 (b"])
def test_the_start_is_read_behind_whatever_the_process_is_called(tmp_path: Path, name: str) -> None:
    fields = " ".join(str(number) for number in range(3, 53))
    found = identify_process(7, proc(tmp_path, f"7 ({name}) {fields}\n"))
    assert found == ProcessIdentity(host=socket.gethostname(), namespace="pid:[1]", started="22")


def test_where_nothing_is_told_nothing_is_known(tmp_path: Path) -> None:
    assert identify_process(7, tmp_path) == ProcessIdentity(host=socket.gethostname())
    assert identify_process(7, proc(tmp_path, "7 (x) R 1")).started == ""


@pytest.mark.parametrize("row", [None, 1, "x", [], {}, {"host": "h"}, {"host": "h", "namespace": "n"}])
def test_a_file_that_does_not_say_says_nothing(row: object) -> None:
    assert read_identity(row) is None


@pytest.mark.skipif(not has_proc(), reason="it is not Linux")
def test_what_a_process_has_open_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    assert not has_open(os.getpid(), path)
    with path.open():
        assert has_open(os.getpid(), path)
        assert not has_open(os.getpid(), tmp_path / "gone")
        assert not has_open(2**31, path)
