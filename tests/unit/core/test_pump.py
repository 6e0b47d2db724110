"""What comes in parts, within a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from ci.core.pump import pumped


def test_parts_come_in_their_order_and_end() -> None:
    with pumped(lambda: iter_of(5)) as pump:
        assert [pump.take(10) for _ in range(6)] == [0, 1, 2, 3, 4, None]


def iter_of(count: int) -> Iterator[int]:
    yield from range(count)


def test_what_making_a_part_raises_is_raised_where_it_is_taken() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("reset")

    with pumped(broken) as pump:
        assert pump.take(10) == 1
        with pytest.raises(OSError, match="reset"):
            pump.take(10)


def test_what_hangs_is_left_behind() -> None:
    ended = threading.Event()

    def hangs() -> Iterator[int]:
        ended.wait(60)
        yield 1

    with pumped(hangs) as pump, pytest.raises(TimeoutError):
        pump.take(0.05)
    ended.set()


def test_when_nobody_takes_parts_any_more_none_are_made() -> None:
    closed = threading.Event()

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    with pumped(endless) as pump:
        assert pump.take(10) == 1
    assert closed.wait(10)
