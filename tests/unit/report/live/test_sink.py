from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ci.core.errors import DeviceError, UsageError
from ci.report.live import sink as sinks
from ci.report.live.sink import Sink, open_descriptor, open_sink


def events_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def clock() -> float:
    return 7.0


@pytest.fixture
def said() -> list[str]:
    return []


def test_events_come_as_lines_in_their_order_and_a_file_begins_anew(tmp_path: Path, said: list[str]) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("old\n" * 10)
    with open_sink(str(path), clock, said.append) as sink:
        assert sink is not None
        for number in range(1000):
            sink.write({"event": "x", "n": number})
    found = events_of(path)
    assert [one["n"] for one in found] == list(range(1000))
    assert found[0] == {"v": 1, "time": 7.0, "event": "x", "n": 0}
    assert said == []


def test_without_a_name_there_is_no_sink(said: list[str]) -> None:
    with open_sink(None, clock, said.append) as sink:
        assert sink is None


def test_a_reader_that_is_gone_ends_the_events_and_nothing_else() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    sink = Sink(write_end, clock)
    for _ in range(100):
        sink.write({"event": "x"})
    assert sink.close() == "events end early: nobody reads them any more"


def test_a_full_disk_ends_the_events_and_nothing_else() -> None:
    sink = Sink(os.open("/dev/full", os.O_WRONLY), clock)
    sink.write({"event": "x"})
    assert sink.close() == "events end early: No space left on device"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read_end, write_end = os.pipe()
    yield read_end, write_end
    os.close(read_end)


def test_a_slow_reader_holds_nobody_up_and_is_told_what_it_missed(pipe: tuple[int, int]) -> None:
    read_end, write_end = pipe
    sink = Sink(write_end, clock, room=10_000)
    pad = "x" * 1000
    for number in range(1000):  # far more than the pipe and the room hold together
        sink.write({"event": "x", "n": number, "pad": pad})
    sink.write({"event": "run_end"})
    ended: list[str] = []
    closing = threading.Thread(target=lambda: ended.append(sink.close()))
    closing.start()
    data = b""
    while chunk := os.read(read_end, 1 << 16):
        data += chunk
    closing.join()
    rows = [json.loads(line) for line in data.splitlines()]
    missed = sum(row["dropped"] for row in rows if row["event"] == "gap")
    assert missed > 0
    assert missed + sum(row["event"] == "x" for row in rows) == 1000
    assert rows[-1]["event"] == "run_end"
    assert ended == [f"{missed:,} events are left out: their reader is slow"]


def test_a_reader_that_stopped_is_waited_for_only_so_long(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "FLUSH_S", 0.05)
    sink = Sink(pipe[1], clock)
    sink.write({"event": "x", "pad": "x" * (1 << 20)})
    assert sink.close() == "events end early: their reader took none for 0.05 s"


def test_a_run_that_an_error_ends_has_an_end_all_the_same(tmp_path: Path, said: list[str]) -> None:
    path = tmp_path / "events.jsonl"
    with contextlib.suppress(DeviceError), open_sink(str(path), clock, said.append) as sink:
        assert sink is not None
        sink.write({"event": "run_start"})
        raise DeviceError("no card", remedy="get one")
    (_, end) = events_of(path)
    assert (end["event"], end["counts"], end["exit"]) == ("run_end", None, 3)
    assert end["message"].startswith("no card")


def test_a_run_that_never_began_or_has_ended_gets_no_second_end(tmp_path: Path, said: list[str]) -> None:
    path = tmp_path / "events.jsonl"
    for events in ([], [{"event": "run_start"}, {"event": "run_end"}]):
        with contextlib.suppress(KeyboardInterrupt), open_sink(str(path), clock, said.append) as sink:
            assert sink is not None
            for event in events:
                sink.write(event)
            raise KeyboardInterrupt
        assert [one["event"] for one in events_of(path)] == [one["event"] for one in events]


def test_a_pipe_nobody_reads_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="nobody reads the pipe") as caught:
        open_descriptor(str(tmp_path / "pipe"))
    assert "start its reader first" in str(caught.value)


def test_a_named_pipe_with_a_reader_takes_events(tmp_path: Path, said: list[str]) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open_sink(str(path), clock, said.append) as sink:
        assert sink is not None
        sink.write({"event": "x"})
    assert os.read(reader, 1000) == b'{"v":1,"time":7.0,"event":"x"}\n'
    os.close(reader)


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(UsageError, match="--events is empty"):
        open_descriptor("")


def test_a_folder_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError) as caught:
        open_descriptor(str(tmp_path))
    assert caught.value.filename == str(tmp_path)
