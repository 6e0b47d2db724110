"""The interval of a rate that was seen in a sample. Pure."""

from __future__ import annotations

import math

# Of the standard normal distribution: an interval that holds in 95 % of all samples.
_Z = 1.96


def score_interval(seen: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a rate by Wilson's score (JASA 22, 1927): it is honest for rates near 1, too.

    Args:
        seen: how many of the sample were as is asked, 0 to `of`.
        of: size of the sample.

    Returns:
        Lower and upper end, 0 to 1; (0, 1) of no sample.
    """
    if not of:
        return 0.0, 1.0
    rate, z2 = seen / of, _Z**2
    middle = rate + z2 / (2 * of)
    half = _Z * math.sqrt(rate * (1 - rate) / of + z2 / (4 * of**2))
    return max(0.0, (middle - half) / (1 + z2 / of)), min(1.0, (middle + half) / (1 + z2 / of))
