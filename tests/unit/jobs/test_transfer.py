"""Many files moved side by side: bounded, ended together, told of in lines."""

from __future__ import annotations

import threading
import time

import pytest

from ci.jobs.transfer import AT_ONCE, Tally, each


def tally_of(files: int, said: list[str]) -> Tally:
    return Tally(word="moved", files=files, size=files, say=said.append, clock=lambda: 0.0)


def test_each_is_done_once_and_no_more_than_a_few_at_a_time() -> None:
    done: list[int] = []
    running = threading.Semaphore(AT_ONCE)

    def work(number: int) -> None:
        assert running.acquire(blocking=False)
        done.append(number)
        running.release()

    each(work, range(500), tally_of(500, []))
    assert sorted(done) == list(range(500))


def test_lines_come_now_and_then() -> None:
    said: list[str] = []
    tally = tally_of(9, said)
    times = iter([100, 105, 109, 110, 121])
    tally.clock = lambda: float(next(times))
    for _ in range(5):
        tally.seen(1)
        tally.tell()
    assert said == [f"moved 0 of 9 files, {number} B of 9 B" for number in (1, 4, 5)]


@pytest.mark.parametrize("error", [RuntimeError("away"), KeyboardInterrupt()])
def test_the_first_that_fails_ends_the_others(error: BaseException) -> None:
    begun: list[int] = []
    tally = tally_of(1000, [])

    def work(number: int) -> None:
        begun.append(number)
        if number == 1:
            raise error
        for _ in range(6000):
            time.sleep(0.01)
            tally.seen(1)

    before = time.monotonic()
    with pytest.raises(type(error)):
        each(work, range(1000), tally)
    assert time.monotonic() - before < 30
    assert len(begun) <= 2 * AT_ONCE


def test_an_interrupt_where_it_is_waited_for_ends_the_work() -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    tally = tally_of(10, [])
    tally.say = interrupted
    tally.clock = lambda: 100.0

    def work(number: int) -> None:
        for _ in range(6000 if number else 1):
            tally.seen(1)
            time.sleep(0.01)

    before = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        each(work, range(10), tally)
    assert time.monotonic() - before < 30
