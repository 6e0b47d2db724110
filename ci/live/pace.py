"""How fast a run goes: the tests settled in a second, and what tests took against what was expected. Pure."""

from __future__ import annotations

from collections import deque

RATE_WINDOW_S = 30


class Pace:
    """Counts what is settled and what it took.

    Attributes:
        began_at: monotonic seconds.
        told_s: seconds expected of the tests that ran to their ends.
        ran_s: seconds these took.
    """

    def __init__(self, now: float) -> None:
        """Begin at `now`, in monotonic seconds."""
        self.began_at = now
        self.told_s = self.ran_s = 0.0
        self._seconds: deque[list[float]] = deque()

    def ran(self, *, expected_s: float, took_s: float) -> None:
        """A test ran to its end."""
        self.told_s += expected_s
        self.ran_s += took_s

    def settled(self, now: float) -> None:
        """A test has a verdict."""
        second = float(int(now))
        if not self._seconds or self._seconds[-1][0] != second:
            self._forget(now)
            self._seconds.append([second, 0])
        self._seconds[-1][1] += 1

    def rate(self, now: float) -> float:
        """Tests that were settled in a second, over the last half minute or since the beginning."""
        self._forget(now)
        span = min(max(now - self.began_at, 1.0), RATE_WINDOW_S)
        return sum(count for _, count in self._seconds) / span

    def _forget(self, now: float) -> None:
        while self._seconds and self._seconds[0][0] < now - RATE_WINDOW_S:
            self._seconds.popleft()
