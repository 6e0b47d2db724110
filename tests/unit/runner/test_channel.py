"""Orders come back as they were sent, line by line, however the pipe cuts them."""

from __future__ import annotations

import fcntl
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci.runner.channel import Answer, Attempt, Lines, Order, Sender, Task, read_answer, send, wait_for


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for one in (reader, writer):
        try:
            os.close(one)
        except OSError:
            continue


def test_an_order_comes_back() -> None:
    order = Order(
        do="run", file="a.py", ids=("a.py::x[ü]", "a.py::y"), expectations={"a.py::x[ü]": {"mode": "skip"}},
        limits={"a.py::y": 3.5}, test_s=9.0, fresh=True, why="stolen", of=3, attempt=2,
        chains=(("a.py::y", "a.py::x[ü]"),),
    )  # fmt: skip
    assert Order.read(order.line()) == order
    assert order.line().count(b"\n") == 1


def test_a_task_comes_back_with_its_paths_whatever_bytes_these_hold() -> None:
    journal = Path(os.fsdecode(b"/run/\xff/0-1.jsonl"))
    attempt = Attempt(shard=0, number=1, journal=journal, log=Path("/run/0-1.log"), planned=3)
    task = Task(
        run="r", tests=Path("/tests"), device="cpu", threads=1, method="fork", test_timeout_s=9,
        setup_timeout_s=9.5, grace_s=1, as_try={"a": 2}, parent=7, fingerprint="f", card="c", attempt=attempt,
    )  # fmt: skip
    assert Task.read(task.line()) == task
    assert Order.read(Order(do="shard", shard=attempt).line()).shard == attempt


def test_an_answer_comes_back_and_what_is_none_is_passed_over() -> None:
    for answer in (Answer(what="done", held="a.py"), Answer(what="refused", error=28)):
        assert read_answer(answer.line()) == answer
    for line in (b"", b"Loading driver", b"[]", b"7", b'{"held": null}'):
        assert read_answer(line) is None


def test_nobody_waits_for_a_reader_that_does_not_read(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    line = b"x" * (1 << 20) + b"\n"
    sender, lines = Sender(writer), Lines(reader)
    sender.send(line)  # the pipe holds a sixteenth of it
    sender.send(b"next\n")
    found: list[bytes] = []
    for _ in range(1000):
        found += lines.read()
        sender.push()
    assert found == [line[:-1], b"next"]


def test_a_reader_that_goes_in_the_middle_is_no_error_of_the_sender(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    sender = Sender(writer)
    sender.send(b"x" * (1 << 20))
    os.close(reader)
    sender.push()
    sender.send(b"more")


def test_lines_are_whole_however_they_arrive(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    lines = Lines(reader)
    assert lines.read() == []
    os.write(writer, b"on")
    assert lines.read() == []
    os.write(writer, b"e\ntwo\nthr")
    assert lines.read() == [b"one", b"two"]
    assert lines.ended is False


def test_the_end_of_a_pipe_is_told(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    lines = Lines(reader)
    os.write(writer, b"last\nhalf")
    os.close(writer)
    assert lines.read() == [b"last"]
    assert lines.read() == []
    assert lines.ended
    assert lines.read() == []


def test_a_reader_that_is_gone_is_no_error_of_the_writer(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.close(reader)
    send(writer, b"anybody?\n")


def test_a_descriptor_beyond_those_that_select_knows_is_read_and_written() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard < 2048 and hard > 0 else 2048, hard))
    ends = os.pipe()
    reader, writer = (fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 1500) for one in ends)
    try:
        assert wait_for([reader], 0.0) == []
        assert wait_for([reader], 0.0, writable=[writer]) == [writer]
        Sender(writer).send(b"one\n")
        assert Lines(reader).read(1.0) == [b"one"]
    finally:
        for one in (*ends, reader, writer):
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_pipe_that_is_closed_soon_counts_as_closed(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    lines = Lines(reader)
    os.write(writer, b"unread\n")
    assert not lines.closed_within(0)
    closes = threading.Timer(0.05, os.close, (writer,))
    closes.start()
    assert lines.closed_within(60)
    closes.join()
    assert lines.read() == [b"unread"]
