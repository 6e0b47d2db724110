from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ci.cli.streams import LastingStream, outlast_readers


def test_what_is_written_arrives(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w", encoding="utf-8") as stream:
        lasting = LastingStream(stream)
        assert lasting.write("héllo") == 5
        lasting.flush()
        assert lasting.encoding == "utf-8"
    assert (tmp_path / "out").read_text(encoding="utf-8") == "héllo"


@pytest.mark.parametrize(("encoding", "arrives"), [("utf-8", "é \\ud800\n"), ("ascii", "\\xe9 \\ud800\n")])
def test_what_the_encoding_lacks_is_escaped(tmp_path: Path, encoding: str, arrives: str) -> None:
    with (tmp_path / "out").open("w", encoding=encoding) as stream:
        LastingStream(stream).write("é \ud800\n")
    assert (tmp_path / "out").read_text(encoding=encoding) == arrives


def test_a_reader_that_left_ends_the_text_and_nothing_else() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        lasting = LastingStream(stream)
        for _ in range(3):
            lasting.write("x" * 100_000)
            lasting.flush()


def test_a_closed_standard_output_stays_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    outlast_readers()
    assert sys.stdout is None
    assert isinstance(sys.stderr, LastingStream)
