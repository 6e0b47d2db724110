"""Where a run writes is written, and left as it was."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ci.doctor.disk import facts_of, look_disk, try_writing
from ci.doctor.finding import Level

from .conftest import MakeWorld


def test_a_folder_that_is_not_there_yet_is_looked_at_from_above(tmp_path: Path) -> None:
    place = facts_of("runs", tmp_path / "a" / "b", 1, "runs")
    assert (place.looked_at, place.why) == (str(tmp_path), "")
    assert place.free > 0
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EIO])
def test_what_a_disk_refuses_is_said(tmp_path: Path, number: int) -> None:
    def refuse(folder: Path) -> None:
        raise OSError(number, os.strerror(number), str(folder / "x"))

    place = facts_of("runs", tmp_path, 1, "runs", write=refuse)
    assert place.why == os.strerror(number)
    assert place.looked_at == str(tmp_path)


def test_a_file_in_the_place_of_a_folder_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("x")
    assert facts_of("runs", tmp_path / "runs" / "r", 1, "runs").why == "it is no folder"
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert facts_of("runs", tmp_path / "gone", 1, "runs").why == "it is no folder"


def test_a_file_that_was_begun_is_removed_also_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        try_writing(tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_run_writes_where_its_settings_say(make_world: MakeWorld, tmp_path: Path) -> None:
    (tmp_path / "noxfile.py").touch()
    environ = {"TMPDIR": str(tmp_path / "t"), "NOX_ENVDIR": str(tmp_path / "envs")}
    world = make_world(environ, runs="r", state="s", run__leases="l")
    (found,) = look_disk(world)
    for use in ("runs", "r", "state", "s", "temporary files", "t", "leases of cards", "l", "nox", "envs"):
        assert use in found.said
    # What is not there, and would be made in a folder of the same disk, is no fault.
    assert found.level is not Level.FAULT
    assert "claims of hosts" in look_disk(make_world(environ, run__share="c"))[0].said
    assert "leases" not in look_disk(make_world(environ, device__name="cpu"))[0].said
