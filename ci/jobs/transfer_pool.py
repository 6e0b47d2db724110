"""Many files moved side by side: bounded, ended together, told of in lines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

# Files under way at once; a large one has parts side by side besides.
AT_ONCE = 4
LINE_EVERY_S = 10.0
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What a transfer did.

    Attributes:
        files: how many there are at its end.
        size: of all of them, in bytes.
        moved: how many of them were moved; the others were there.
    """

    files: int
    size: int
    moved: int


class _StoppedError(Exception):
    """A transfer that ends because another one failed."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """What was moved so far, and lines that tell it; `word` is what is done to it."""

    word: str
    files: int
    size: int
    say: Callable[[str], object]
    clock: Callable[[], float]
    done: int = 0
    moved: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _said: float = 0.0

    def seen(self, count: int) -> None:
        """So many more bytes, from any thread; it ends the transfer where another failed."""
        if self.stop.is_set():
            raise _StoppedError
        with self._lock:
            self.moved += count

    def tell(self) -> None:
        """A line, where it is time for one."""
        if (now := self.clock()) - self._said >= LINE_EVERY_S:
            self._said = now
            amounts = f"{amount(self.moved)} of {amount(self.size)}"
            self.say(f"{self.word} {self.done} of {self.files} files, {amounts}")


def amount(size: int) -> str:
    """A number of bytes as people read it."""
    for unit, word in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {word}"
    return f"{size} B"


def each(work: Callable[[Item], object], items: Sequence[Item], tally: Tally) -> None:
    """Do a piece of work for each of many, some at once; the first that fails ends the others.

    Raises:
        Exception: what the first of them raised.
    """
    rest = iter(items)
    with ThreadPoolExecutor(AT_ONCE) as pool:

        def more(count: int) -> set[Future[object]]:
            return {pool.submit(work, one) for one in islice(rest, count)}

        left = more(2 * AT_ONCE)
        try:
            while left:
                done, left = wait(left, timeout=LINE_EVERY_S, return_when=FIRST_COMPLETED)
                for one in done:
                    one.result()
                tally.done += len(done)
                tally.tell()
                left |= more(len(done))
        except BaseException:
            tally.stop.set()
            pool.shutdown(cancel_futures=True)
            raise
