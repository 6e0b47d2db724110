"""How many requests of one repository are taken in a minute, as the relay counts them: refused ones too.

In memory, on purpose: one server process takes the requests of a store, a note a request in the store would
make a refused request cost as much as one that is taken, and after a restart a minute is soon over.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable

WINDOW_S = 60.0


class RateLimit:
    """A sliding window of 60 s for each repository.

    Args:
        limit: requests a window.
        clock: seconds since the epoch.
    """

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[str, deque[float]] = {}

    def wait(self, repository: str) -> int:
        """Count a request; 0 where it is taken, else whole seconds until one would be.

        Only the last `limit` requests need to be known: one more within the window is too many.

        Args:
            repository: one of the allow-list, so there are not any number of them.
        """
        now = self._clock()
        with self._lock:
            seen = self._seen.setdefault(repository, deque(maxlen=self._limit))
            full = len(seen) == self._limit and now - seen[0] < WINDOW_S
            seen.append(now)
            return max(1, math.ceil(seen[0] + WINDOW_S - now)) if full else 0
