"""What bringing the results of one run may take before others are looked after again: time, and bytes."""

from __future__ import annotations

import time
from collections.abc import Callable

from ci.errors import BadFileError

# As long as one file may take: what came so far is kept, so that each time brings at least one more.
BRING_S = 600.0
MOST_BYTES = 2 << 30


def never() -> bool:
    """Nobody says that it is enough."""
    return False


class Budget:
    """Counts what one bring takes.

    Args:
        stop: says that an interrupt was heard.
    """

    def __init__(self, stop: Callable[[], bool]) -> None:
        self._stop, self._until, self._bytes = stop, time.monotonic() + BRING_S, 0

    def over(self) -> bool:
        """Whether what is still to come is left for another time."""
        return self._stop() or time.monotonic() > self._until

    def count(self, size: int) -> None:
        """Count bytes that are here, or that will come.

        Raises:
            BadFileError: they are too many in all.
        """
        self._bytes += size
        if self._bytes > MOST_BYTES:
            raise BadFileError(
                f"with it what the run left has more than {MOST_BYTES:,} bytes",
                where="results", remedy="hand on less: a run's folder without its logs",
            )  # fmt: skip
