"""Passes again and again: how long to wait between them."""

from __future__ import annotations

from collections.abc import Callable

from ci.webhooks.polling import Passed

# A tenth more or less, so that many pollers do not come at the same moment.
JITTER = 0.1
LONGEST_S = 3600.0
MAX_DOUBLINGS = 6


def pause_s(every_s: float, passed: Passed, *, failures: int, chance: float) -> float:
    """Seconds until the next pass.

    Args:
        every_s: what was asked for.
        passed: what came of the last pass.
        failures: passes in a row at which somebody was away; each doubles the time, up to an hour.
        chance: a number in [0, 1).
    """
    longest = max(LONGEST_S, every_s)
    wait_s = min(every_s * 2.0 ** min(failures, MAX_DOUBLINGS), longest)
    # Not before a limit is over; from then on as before.
    return max(wait_s, passed.retry_s) * (1 + JITTER * (2 * chance - 1)) + JITTER * passed.retry_s


def repeat(
    make: Callable[[], Passed],
    *,
    every_s: float,
    sleep: Callable[[float], object],
    rng: Callable[[], float],
    tell: Callable[[Passed, float], None],
) -> None:
    """Make passes until an interrupt ends it.

    Args:
        make: a pass.
        every_s: seconds from the end of one to the next.
        sleep: waits so many seconds.
        rng: a number in [0, 1).
        tell: is told of each pass, and in how many seconds the next one is.

    Raises:
        KeyboardInterrupt: always, at some time.
    """
    failures = 0
    while True:
        passed = make()
        failures = failures + 1 if passed.away else 0
        wait_s = pause_s(every_s, passed, failures=failures, chance=rng())
        tell(passed, wait_s)
        sleep(wait_s)
