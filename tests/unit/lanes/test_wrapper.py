from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci.lanes import wrapper
from ci.lanes.wrapper import LongOutput
from test_selection.files import read_json, write_json


def test_an_end_is_written_down_however_long_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, slept = [1, 2, 3], list[float]()

    def write(path: Path, kind: str, content: Mapping[str, Any]) -> None:
        if full:
            full.pop()
            raise OSError(errno.ENOSPC, "No space left on device")
        write_json(path, kind, content)

    monkeypatch.setattr(wrapper, "write_json", write)
    monkeypatch.setattr(time, "sleep", slept.append)
    wrapper._write_end(tmp_path / "end.json", {"exit_code": 0, "told": False, "said": ""})
    assert read_json(tmp_path / "end.json", "lane-end")["exit_code"] == 0
    assert slept == [wrapper.FULL_DISK_S] * 3


def test_a_folder_in_which_nobody_works_is_not_held(tmp_path: Path) -> None:
    assert not wrapper.held(tmp_path)
    (tmp_path / wrapper.LOCK).touch()
    assert not wrapper.held(tmp_path)


def test_what_grows_too_long_loses_its_middle_and_says_how_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci.lanes.wrapper._UNIT", 1000)
    path = tmp_path / "output.log"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    long = LongOutput(descriptor, most=1000, kept=4)
    os.write(descriptor, b"head" + b"x" * 996)
    long.check()
    assert path.stat().st_size == 1000
    os.write(descriptor, b"tail")
    long.check()
    assert path.read_text() == "head\n[1.00 GiB of what it printed are cut out here]\ntail"
    # Whoever prints goes on behind it.
    os.write(descriptor, b"y" * 1000 + b"last")
    long.check()
    text = path.read_text()
    os.close(descriptor)
    assert (text[:4], text[-4:], "[2.0" in text) == ("head", "last", True)
