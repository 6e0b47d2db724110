"""How far off a time has to be before it is more than noise. Pure.

Logarithms of ratios are looked at, so that twice as long and half as long are equally far off. Times of tests
have tails that no normal distribution has; a tail that falls exponentially in the logarithm, as one that
falls by a power in the ratio does, is fitted to the noise of the very comparison, and followed to where the
expected number of values beyond it is what was agreed for all of them together.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

# Values that are expected beyond a limit though nothing changed, over a whole comparison.
FALSE_ALARMS = 0.1
# With fewer values nobody knows what is usual.
LEAST = 10
# Of a side of so many values the tail itself can be looked at.
_LEAST_OF_A_SIDE = 40
_DEEPEST = 10
# Of a normal distribution, the standard deviation in median absolute deviations.
_MAD = 1.4826


def median(values: Iterable[float]) -> float:
    """The median; 0 of nothing."""
    found = list(values)
    return statistics.median(found) if found else 0.0


def spread_of(values: Iterable[float], *, least: float = 0.0) -> float:
    """The standard deviation that values around 0 would have as their median distance says.

    Args:
        values: around 0.
        least: it is not taken to be less than this.
    """
    return max(least, _MAD * median(abs(one) for one in values))


def limit_of(values: Sequence[float], *, alarms: float = FALSE_ALARMS) -> float:
    """How far from 0 a value is that noise does not explain; infinite where there are too few to know.

    Both sides are noise alike as long as nothing changed, and where something did, mostly one of them: so the
    side that is nearer says what is usual.

    Args:
        values: around 0.
        alarms: how many of them, on both sides together, may be expected beyond the limit by noise alone.
    """
    if len(values) < LEAST:
        return math.inf
    sides = [sorted((sign * one for one in values if sign * one > 0), reverse=True) for sign in (1, -1)]
    if min(map(len, sides)) < _LEAST_OF_A_SIDE:
        return _by_median(values, alarms)
    return min(_tail(side, alarms / 2) for side in sides)


def _by_median(values: Sequence[float], alarms: float) -> float:
    """The same for a few, of which only the middle is known: its distance says how fast the tail falls."""
    number = len(values)
    scale = median(abs(one) for one in values) / math.log(2)
    # A middle that few values say is uncertain itself.
    return scale * (1 + 2 / math.sqrt(number)) * math.log(number / alarms)


def _tail(side: Sequence[float], alarms: float) -> float:
    """Of one side, the furthest first: a line through two of its ranks, as far as fewer than agreed are left.

    Where the tail falls more slowly further out, as where a machine stalls now and then, a deeper pair of
    ranks says so; the furthest of all counts.
    """
    limits = []
    rank = _DEEPEST
    # Further in, a normal distribution falls more slowly than out there, which is nothing of its tail.
    while rank == _DEEPEST or 40 * rank <= len(side):
        inner = min(10 * rank, len(side))
        scale = (side[rank - 1] - side[inner - 1]) / math.log(inner / rank)
        # Two standard errors of a scale that so many values say.
        scale *= 1 + 2 / math.sqrt(inner - rank)
        limits.append(side[rank - 1] + scale * math.log(rank / alarms))
        rank *= 4
    return max(limits)
