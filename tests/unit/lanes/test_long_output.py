from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci.lanes.long_output import LongOutput


def test_what_grows_too_long_loses_its_middle_and_says_how_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci.lanes.long_output._UNIT", 1000)
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
