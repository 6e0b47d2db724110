"""Where a run writes is written, and left as it was."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from ci.doctor import disk
from ci.doctor.disk import check_disk

from .conftest import MakeMachine, short


def test_a_run_writes_where_its_settings_say_and_nothing_is_left(
    make_machine: MakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "noxfile.py").touch()
    (tmp_path / "t").mkdir()
    environ = {"TMPDIR": str(tmp_path / "t"), "NOX_ENVDIR": str(tmp_path / "envs")}
    machine = make_machine(environ, runs="r", state="s", run__leases="l", run__share="c")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=99 << 30))
    there = (("runs", "r"), ("state", "s"), ("temporary files", "t"), ("leases of cards", "l"),
             ("claims of hosts", "c"), ("nox", "envs"))  # fmt: skip
    uses = ", ".join(f"{use} {tmp_path}/{name}" for use, name in there)
    assert short([*check_disk(machine)]) == [("ok", f"99.0 GiB left for {uses}")]
    assert sorted(one.name for one in tmp_path.rglob("*")) == ["noxfile.py", "t"]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    (found,) = check_disk(machine)
    assert short([found])[0][0] == "warning"
    # What is long is cut at its end.
    assert found.message.startswith("1.0 GiB left, and a run takes up to 10.0 GiB: runs /")
    assert found.remedy == f"free space there: df -h -- {tmp_path}"
    (found,) = check_disk(make_machine(environ, device__name="cpu"))
    assert "leases" not in found.message


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EIO])
def test_what_a_disk_refuses_is_said(
    make_machine: MakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(folder: Path) -> None:
        raise OSError(number, os.strerror(number), str(folder / "x"))

    monkeypatch.setattr(disk, "try_writing", refuse)
    temporary, first, *_ = check_disk(make_machine({"TMPDIR": str(tmp_path)}))
    why = f"TMPDIR is {tmp_path}, which cannot be written: {os.strerror(number)}; Python looks"
    assert temporary.message.startswith(f"temporary files: {why}")
    assert short([first]) == [("fault", f"runs: {tmp_path} cannot be written: {os.strerror(number)}")]
    assert first.remedy == f"see whose it is: ls -ld -- {tmp_path}; or set runs"


def test_temporary_files_are_where_python_puts_them(
    make_machine: MakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    (first, second) = check_disk(make_machine({"TMPDIR": str(gone), "TEMP": str(tmp_path)}))
    assert first.message.startswith(
        f"temporary files: TMPDIR is {gone}, which cannot be written: No such file"
    )
    assert (str(first.level), first.remedy) == ("warning", "make it, or set TMPDIR to another folder")
    assert f", temporary files {tmp_path}" in second.message
    monkeypatch.setattr(disk, "_USUAL", (str(gone), str(tmp_path)))
    (only,) = check_disk(make_machine({}))
    assert f", temporary files {tmp_path}" in only.message


def test_a_file_in_the_place_of_a_folder_is_a_fault(make_machine: MakeMachine, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("x")
    first, *_ = check_disk(make_machine({"TMPDIR": str(tmp_path)}, runs="runs/r"))
    assert first.message.startswith(f"runs: {tmp_path}/runs cannot be written: ")


def test_a_file_that_was_started_is_removed_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        disk.try_writing(tmp_path)
    assert not any(tmp_path.iterdir())
