"""Ctrl-C and SIGTERM (a cancelled job, a pod that must go): one way to hear them, everywhere."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def noted() -> Iterator[list[int]]:
    """Within, interrupts are noted in the list and not raised.

    An exception could come between any two lines, such as a worker's start and the note of it.
    """
    heard: list[int] = []
    with _handled(lambda number, _: heard.append(number)):
        yield heard


@contextlib.contextmanager
def raised() -> Iterator[list[int]]:
    """Within, the first interrupt raises KeyboardInterrupt; later ones do not disturb the ending.

    The list holds the interrupt that was raised, for the case that somebody swallows the exception.
    """
    heard: list[int] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        heard.append(number)
        for one in INTERRUPTS:
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt

    with _handled(interrupt):
        yield heard


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Within, an interrupt waits and comes at the end: an import may swallow it or make an error of it."""
    with noted() as heard:
        yield
    if heard:
        signal.raise_signal(heard[0])


@contextlib.contextmanager
def _handled(handler: signal._HANDLER) -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in INTERRUPTS}
    for number, was in before.items():
        if was is not signal.SIG_IGN:  # as under nohup, or once an ending has begun
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number, was in before.items():
            if signal.getsignal(number) is handler:
                signal.signal(number, was)
