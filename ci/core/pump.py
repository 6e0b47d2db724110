"""What comes in parts, within a time: nothing that hangs or drips while it is made outlasts who asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from queue import Empty, Full, Queue
from typing import Generic, TypeVar

Part = TypeVar("Part")
_LOOK_S = 0.1


class Pump(Generic[Part]):
    """Makes parts in a thread of its own, a few ahead of who takes them.

    A time-out of a socket holds for one read of it. A server that sends a byte a second meets it for ever,
    and names are looked up without one; only whoever waits elsewhere can stop waiting.
    """

    def __init__(self, make: Callable[[], Iterator[Part]]) -> None:
        self._make = make
        self._parts: Queue[tuple[Part | None, BaseException | None]] = Queue(maxsize=2)
        self._stopped = threading.Event()

    def take(self, seconds: float) -> Part | None:
        """The next part; None when there are no more.

        Args:
            seconds: it may take.

        Raises:
            TimeoutError: it did not come.
            BaseException: what making it raised.
        """
        try:
            part, error = self._parts.get(timeout=max(seconds, 0.0))
        except Empty:
            raise TimeoutError from None
        if error is not None:
            raise error
        return part

    def run(self) -> None:
        """Make parts until there are no more, or nobody takes them."""
        try:
            with closing(self._make()) as parts:  # type: ignore[type-var]  # a generator, which can be closed
                for part in parts:
                    if not self._put(part, None):
                        return
            self._put(None, None)
        except BaseException as error:  # noqa: BLE001  # is raised where it is waited for
            self._put(None, error)

    def stop(self) -> None:
        """Nobody takes what is still to come."""
        self._stopped.set()

    def _put(self, part: Part | None, error: BaseException | None) -> bool:
        while not self._stopped.is_set():
            try:
                self._parts.put((part, error), timeout=_LOOK_S)
            except Full:
                continue
            return True
        return False


@contextmanager
def pumped(make: Callable[[], Iterator[Part]]) -> Iterator[Pump[Part]]:
    """A pump that runs within; what hangs in it is left behind, and ends with the process at the latest."""
    pump = Pump(make)
    threading.Thread(target=pump.run, name="pump", daemon=True).start()
    try:
        yield pump
    finally:
        pump.stop()
