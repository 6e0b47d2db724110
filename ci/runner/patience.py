"""How a child that takes too long is ended: its stacks first, then the kill, then going on without it."""

from __future__ import annotations

import time
from collections.abc import Callable

from ci.runner.child import DUMP_SIGNAL, Child
from ci.runner.watch import Watch

# A process in the kernel's uninterruptible sleep, such as in a driver, does not end by any signal until the
# driver lets it. Longer than this nobody waits for it.
KILL_S = 30.0
NEVER_ENDS = "a process cannot be ended, so it hangs in the kernel, and most likely in the card's driver"
_POLL_S = 0.02


class Patience:
    """With one child, while one thing is waited for."""

    def __init__(self, child: Child, watch: Watch, clock: Callable[[], float]) -> None:
        self._child, self._watch, self._clock = child, watch, clock
        self._dumped_at: float | None = None
        self._killed_at: float | None = None

    def look(self) -> None:
        """Take the next step if it is time."""
        now = self._clock()
        if not self._watch.overdue():
            self._dumped_at = None  # it ended after all, and what runs now has its own time
        elif self._dumped_at is None:
            self._child.dump_stacks()
            self._dumped_at = now
        elif now - self._dumped_at > self._watch.limits.dump_s:
            self._watch.give_up()
            self.kill()

    def kill(self) -> None:
        """End the child, now."""
        self._child.kill()
        self._killed_at = self._clock() if self._killed_at is None else self._killed_at

    @property
    def over(self) -> bool:
        """Whether the child was killed long ago, and is there all the same."""
        return self._killed_at is not None and self._clock() - self._killed_at > KILL_S

    def ended(self, code: int) -> None:
        """Note where a child ended for being asked for its stacks before it could tell them."""
        if self._dumped_at is not None and code == -DUMP_SIGNAL:
            self._watch.give_up()


def gone(
    child: Child,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> bool:
    """Whether a child that was killed ends within `KILL_S` seconds."""
    deadline = clock() + KILL_S
    while child.poll() is None:
        if clock() > deadline:
            return False
        sleep(_POLL_S)
    return True
