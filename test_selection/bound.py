"""The lower bound of a split's longest shard when every shard pays the set-up of each file it touches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from test_selection.limits import Cards
from test_selection.loads import FileLoad

# Seconds are sums of many floats: quotients this close to a whole number are meant to be it.
ROUNDING = 1e-9
_ALMOST_NOTHING = 1e-30  # seconds


def longest_test(loads: Iterable[FileLoad]) -> float:
    """Seconds of the longest test with the set-up of its file: no shard that runs it ends sooner."""
    return max((load.setup_s + load.seconds[0] for load in loads), default=0.0)


def work_within(loads: Iterable[FileLoad], limit: float) -> float:
    """Least seconds of all shards together when none may exceed `limit`: sum of D_f + s_f k_f(T).

    File f with D_f seconds of tests and s_f of set-up touches at least k_f(T) = max(1, ceil(D_f / (T - s_f)))
    shards. What runs on c cards counts c times; tests that may borrow the set-up of wider ones of their file
    count without it. Infinite where a file's set-up leaves no room for its tests.
    """
    work = 0.0
    for load in loads:
        pieces = 0 if load.borrows else 1
        if load.total_s > 0:
            room = limit - load.setup_s
            if room <= 0:
                return math.inf
            if pieces:
                pieces = max(1, math.ceil(load.total_s / room - ROUNDING))
        work += (load.total_s + load.setup_s * pieces) * load.cards
    return work


def lower_bound(loads: Sequence[FileLoad], shards: int, cards: Cards | None = None) -> float:
    """Seconds below which no split over `shards` shards can end.

    The least T that is no less than the longest test with its set-up and for which all shards together, m T,
    hold the work that T asks for. The work falls as T grows, so bisection finds it. With cards of different
    speed a shard does at most T v seconds of work, v the fastest, and all of them T times the sum of the
    speeds; a test on c cards keeps c of them busy.
    """
    used = cards or Cards(count=shards)
    fastest, total = used.fastest, used.total
    longest = longest_test(loads)
    if used.speeds:
        # The fastest shard of c cards is as fast as the c-th fastest card.
        longest = (
            max((load.setup_s + load.seconds[0]) / used.speeds[load.cards - 1] for load in loads)
            if loads
            else 0.0
        )

    def asks(limit: float) -> float:
        return work_within(loads, limit * fastest) / total

    def fits(limit: float) -> bool:
        return asks(limit) <= limit * (1 + ROUNDING)

    start = max(longest, asks(math.inf))
    found = least(fits, start)
    # Between two steps of k_f the bound is the work over the shards, exactly.
    exact = max(longest, asks(found))
    return exact if exact <= found and fits(exact) else found


def least(fits: Callable[[float], bool], start: float, *, tolerance: float = ROUNDING) -> float:
    """The least limit from `start` on that fits, within a relative `tolerance`; `fits` stays true.

    Ends for the smallest numbers too, of which `tolerance` is 0: there it finds the very least.
    """
    low = high = start
    step = 2.0**-13
    while not fits(high):
        # From nothing no factor leads on.
        low, high = high, max(start, _ALMOST_NOTHING) * (1 + step)
        step *= 2
    while high - low > tolerance * high:
        middle = (low + high) / 2
        if not low < middle < high:  # neighbours
            break
        if fits(middle):
            high = middle
        else:
            low = middle
    return high
