from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ci.runner import reexec
from ci.runner.reexec import open_descriptors, told_again, why_open

NONE = SimpleNamespace()


@pytest.mark.parametrize("path", ["/dev/vfio/12", "/dev/vfio/devices/vfio0", "/dev/accel/accel0"])
def test_an_open_card_is_named(path: str) -> None:
    assert why_open(["/dev/null", path, path, "socket:[1]"], NONE) == f"{path} is open"


@pytest.mark.parametrize("path", ["/dev/null", "/dev/vfio/vfio", "/mnt/dev/vfio/1", "pipe:[3]"])
def test_what_is_no_card_is_none(path: str) -> None:
    assert why_open([path], NONE) == ""


def test_a_device_that_is_initialized_is_open_and_one_that_is_not_or_does_not_say_is_not() -> None:
    assert why_open([], SimpleNamespace(is_initialized=lambda: True)) == "the device is initialized"
    devices: list[Any] = [
        SimpleNamespace(is_initialized=lambda: False),
        SimpleNamespace(is_initialized=1),
        NONE,
        None,
    ]
    assert [why_open([], one) for one in devices] == [""] * 4


def test_what_is_open_is_known_by_its_links_and_nothing_where_nothing_tells(tmp_path: Path) -> None:
    (tmp_path / "3").symlink_to("/dev/vfio/7")
    (tmp_path / "4").touch()
    assert open_descriptors(tmp_path) == {3: "/dev/vfio/7"}
    assert open_descriptors(tmp_path / "none") == {}


def test_a_process_that_began_again_has_its_task_from_a_file(tmp_path: Path) -> None:
    assert told_again([]) is None
    file = tmp_path / "task"
    file.write_text('{"method": "spawn"}', encoding="ascii")
    assert told_again([str(os.open(file, os.O_RDONLY))]) == {"method": "spawn"}


def test_begun_again_it_imports_nothing_of_the_folder_it_is_called_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[list[str]] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reexec, "open_descriptors", dict)
    monkeypatch.setattr(os, "execv", lambda _, words: begun.append(words))
    with pytest.raises(AssertionError, match="returned"):
        reexec.begin_again("ci.runner.worker", {"method": "fork"}, why="", kept=())
    ((python, safe, *words),) = begun
    assert (python, safe, words[:2]) == (sys.executable, "-P", ["-m", "ci.runner.worker"])
