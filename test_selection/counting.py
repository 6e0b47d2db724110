"""Lower bounds where all tests are multiples of one unit: shards hold whole units, beside their set-ups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from test_selection.bound import ROUNDING
from test_selection.groups import MOST_TOGETHER, needs_more
from test_selection.loads import FileLoad

# Seconds are looked at for a common unit down to a ten thousandth, where there are few different ones.
TICKS = 10_000
MAX_VALUES = 64
# So many units fill a shard that counting them wins next to nothing.
MANY = 1000
# Edges of the hull that are tried, those of the fewest parts.
MAX_EDGES = 4

# How many parts a shard has, and the units it holds then at most.
Row = tuple[int, int]


def unit_of(loads: Sequence[FileLoad]) -> float:
    """The longest time that all tests are multiples of; 0 where none is found."""
    longest = max((load.seconds[0] for load in loads), default=0.0)
    if all(load.seconds[-1] >= longest * (1 - ROUNDING) for load in loads):
        return longest
    values: set[float] = set()
    for load in loads:
        values.update(load.seconds)
        if len(values) > MAX_VALUES:
            return 0.0
    ticks = [round(value * TICKS) for value in values]
    if any(abs(tick - value * TICKS) > ROUNDING for tick, value in zip(ticks, values, strict=True)):
        return 0.0
    # What is less than half a tick is no unit, and none of it either.
    return math.gcd(*ticks) / TICKS if all(ticks) else 0.0


def counts_too_many(loads: Sequence[FileLoad], shards: int, limit: float) -> bool:
    """Whether whole units prove that no split ends within `limit` seconds.

    A shard with p parts holds at most c(p) = floor((T - the p least set-ups) / u) units of u seconds,
    and a file of n units has at least ceil(n / c) parts, c what fits beside its own set-up. All shards
    together hold no more than m times the concave hull of c at the mean number of parts, and c falls.
    """
    one = unit_of(loads)
    rows = _rows(loads, limit, one)
    if rows is None:
        return False
    parts = units = 0
    for load in loads:
        fit = _fit(limit - load.setup_s, one)
        if fit < 1:
            return load.total_s > 0 or load.setup_s > limit * (1 + ROUNDING)
        here = round(load.total_s / one)
        parts += max(1, math.ceil(here / fit))
        units += here
    if not rows:
        return True
    return shards * _hull(rows, parts / shards) < units * (1 - ROUNDING)


def groups_too_many(loads: Sequence[FileLoad], shards: int, limit: float) -> bool:
    """Whether groups of files and shards prove it, counted in units.

    A line a - b p no less than c(p) for any p parts stands for a shard of a units on which each part pays b:
    what no groups of such shards hold, no groups of the true ones do.
    """
    one = unit_of(loads)
    rows = _rows(loads, limit, one)
    if not rows:
        return False
    units = [float(round(load.total_s / one)) for load in loads]
    for (p, c), (q, d) in [*pairwise(_vertices(rows))][:MAX_EDGES]:
        paid = (c - d) / (q - p)
        # Rounding must not take a unit from what a shard holds.
        holds = (c + paid * p) * (1 + ROUNDING)
        counted = [
            replace(load, setup_s=paid, total_s=total) for load, total in zip(loads, units, strict=True)
        ]
        if needs_more(counted, shards, holds, longest=MOST_TOGETHER):
            return True
    return False


def _rows(loads: Sequence[FileLoad], limit: float, one: float) -> list[Row] | None:
    """The units that 1, 2, … parts leave room for; None where units are none or too fine."""
    if one <= limit * ROUNDING or limit > one * MANY or any(load.seconds[-1] <= 0 for load in loads):
        return None
    paid = accumulate(sorted(load.setup_s for load in loads))
    rows: list[Row] = []
    for number, setups in enumerate(paid, start=1):
        fit = _fit(limit - setups, one)
        if fit < number:
            # Each part has a test, so no shard has so many parts.
            break
        rows.append((number, fit))
    return rows


def _fit(room: float, one: float) -> int:
    return max(0, math.floor(room / one * (1 + ROUNDING) + ROUNDING))


def _vertices(rows: Sequence[Row]) -> list[Row]:
    """The corners of the least concave curve above the points."""
    found: list[Row] = []
    for row in rows:
        while len(found) > 1 and _above(found[-2], row, found[-1]):
            found.pop()
        found.append(row)
    return found


def _above(one: Row, two: Row, between: Row) -> bool:
    """Whether the line from one point to another passes above or through a point between."""
    (a, b), (d, e), (p, c) = one, two, between
    return (e - b) * (p - a) >= (c - b) * (d - a)


def _hull(rows: Sequence[Row], at: float) -> float:
    """The least concave curve above the points, falling, at a place; below 0 where no shard gets there."""
    if at <= rows[0][0]:
        return float(rows[0][1])
    for (a, b), (d, e) in pairwise(_vertices(rows)):
        if at <= d:
            return b + (e - b) * (at - a) / (d - a)
    return -1.0
