"""A lower bound where all tests take the same: shards hold whole numbers of tests and of files' parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from test_selection.bound import ROUNDING
from test_selection.loads import FileLoad


def counts_too_many(loads: Sequence[FileLoad], shards: int, limit: float) -> bool:
    """Whether equal tests prove that no split ends within `limit` seconds.

    A shard with p parts holds at most c(p) = floor((T - the p least set-ups) / v) tests of v seconds,
    and a file of n tests has at least ceil(n / c) parts, c what fits beside its own set-up. All shards
    together hold no more than m times the concave hull of c at the mean number of parts, and c falls.
    """
    one = max(load.seconds[0] for load in loads)
    if one <= limit * ROUNDING or any(load.seconds[-1] < one * (1 - ROUNDING) for load in loads):
        return False
    parts = tests = 0
    for load in loads:
        fit = _fit(limit - load.setup_s, one)
        if fit < 1:
            return True
        parts += math.ceil(len(load.seconds) / fit)
        tests += len(load.seconds)
    paid = accumulate(sorted(load.setup_s for load in loads))
    rows = [(0, _fit(limit, one))]
    for number, setups in enumerate(paid, start=1):
        fit = _fit(limit - setups, one)
        if fit < number:
            # Each part has a test, so no shard has so many parts.
            break
        rows.append((number, fit))
    return shards * _hull(rows[1:], parts / shards) < tests * (1 - ROUNDING)


def _fit(room: float, one: float) -> int:
    return max(0, math.floor(room / one * (1 + ROUNDING) + ROUNDING))


def _hull(rows: Sequence[tuple[int, int]], at: float) -> float:
    """The least concave curve above the points, falling, at a place; below 0 where no shard gets there."""
    if at <= rows[0][0]:
        return float(max(fit for _, fit in rows))
    if at > rows[-1][0]:
        return -1.0
    left = [row for row in rows if row[0] <= at]
    right = [row for row in rows if row[0] >= at]
    return max(float(b) if d == a else b + (e - b) * (at - a) / (d - a) for a, b in left for d, e in right)
