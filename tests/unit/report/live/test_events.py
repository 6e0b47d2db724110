from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import ci.report.live
from ci.core.errors import DeviceError, UsageError
from ci.record.verdict import Verdict
from ci.report.live import events
from ci.report.live.events import Sink, encode, open_descriptor, open_sink

from .small_states import A, B, Feed, small_state

ROOT = Path(__file__).parents[4]
SCHEMA: dict[str, Any] = json.loads(
    (Path(ci.report.live.__file__).parent / "events.schema.json").read_text(encoding="utf-8")
)
KINDS = [one["if"]["properties"]["event"]["const"] for one in SCHEMA["allOf"]]
CHECK = jsonschema.Draft202012Validator(SCHEMA)


def a_whole_run() -> list[dict[str, Any]]:
    """One event of every kind at least, as they go over the wire."""
    feed = Feed(small_state())
    rows = [events.run_start(feed.state, run="r", fingerprint="f")]
    feed.begin(0, "a.py")
    feed.test(0, A, "failed", "it broke")
    feed.test(0, A, "passed", number=2)
    feed.event(0, "start", id=B)
    feed.event(0, "crash", id=B, cause="signal", message="died by SIGSEGV", detail="x", seconds=2.0)
    feed.event(1, "shard_start", attempt=1, card="card:1")
    feed.event(1, "file_error", file="b.py", message="ImportError: x", detail="")
    feed.event(1, "worker_lost", id=None, message="gone")
    feed.event(1, "card_lost", card="card:1", message="lost 2 times")
    feed.news += feed.state.finish(99.0, interrupted=False)
    rows += [events.row(one) for one in feed.news]
    rows += [{"event": "gap", "dropped": 3}, events.run_end(feed.state.counts, 3)]
    return [json.loads(encode(row, 12.5)) for row in rows]


def test_every_event_is_as_its_schema_has_it_and_every_kind_is_told() -> None:
    CHECK.check_schema(SCHEMA)
    rows = a_whole_run()
    for row in rows:
        CHECK.validate(row)
    assert (
        {row["event"] for row in rows}
        == set(KINDS)
        == set(SCHEMA["$defs"]) - {"outcome", "verdict", "counts"}
    )


def test_every_key_that_is_written_is_one_the_schema_describes() -> None:
    for row in a_whole_run():
        known = {"v", "time", "event", *SCHEMA["$defs"][row["event"]]["properties"]}
        assert set(row) <= known


def test_the_schema_would_find_a_wrong_event_and_lets_unknown_ones_pass() -> None:
    good = next(row for row in a_whole_run() if row["event"] == "test")
    CHECK.validate({**good, "colour": "red"})
    CHECK.validate({"v": 1, "time": 1.0, "event": "tea"})
    for bad in (
        {**good, "v": 2},
        {**good, "outcome": "flaky"},
        {**good, "seconds": -1},
        {**good, "id": None},
    ):
        with pytest.raises(jsonschema.ValidationError):
            CHECK.validate(bad)


def test_who_follows_the_events_knows_every_tests_verdict() -> None:
    rows = a_whole_run()
    verdicts = {row["id"]: row["verdict"] for row in rows if row["event"] == "test"}
    counts = {verdict.value: list(verdicts.values()).count(verdict) for verdict in Verdict}
    assert rows[-1]["counts"] == counts
    assert rows[0]["planned"] == sum(counts.values())


def test_the_document_names_every_kind_and_its_keys() -> None:
    text = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.MULTILINE))
    assert set(rows) == set(KINDS)
    for kind, keys in rows.items():
        assert re.findall(r"`(\w+)`", keys) == list(SCHEMA["$defs"][kind]["properties"])


def test_a_line_is_ascii_and_nothing_in_it_is_a_command_to_github() -> None:
    row = {"event": "test", "id": "a ##[error]\u2028\ud800\n::error::x"}
    line = encode(row, 1.0)
    assert line.isascii()
    assert line.count("\n") == 1
    assert "##[" not in line
    assert json.loads(line)["id"] == row["id"]


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
    assert sink.close() == "events end early: no reader is left"


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
    assert ended == [f"{missed:,} events were dropped: their reader is slow"]


def test_a_reader_that_stopped_is_waited_for_only_so_long(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "FLUSH_S", 0.05)
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
    for rows in ([], [{"event": "run_start"}, {"event": "run_end"}]):
        with contextlib.suppress(KeyboardInterrupt), open_sink(str(path), clock, said.append) as sink:
            assert sink is not None
            for event in rows:
                sink.write(event)
            raise KeyboardInterrupt
        assert [one["event"] for one in events_of(path)] == [one["event"] for one in rows]


def test_a_pipe_nobody_reads_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="no process reads the pipe") as caught:
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
