"""Time-outs from history: what is known to be quick need not wait ten minutes for a hang."""

from __future__ import annotations

import math
from collections.abc import Mapping
from urllib.parse import unquote

from test_selection.durations import Estimate, Source


def file_timeouts(
    estimates: Mapping[str, Estimate], *, factor: float, floor_s: float, ceiling_s: float
) -> dict[str, float]:
    """Seconds after which a test of a file counts as hung.

    It is `factor` times the greatest 95th percentile of any test of the file: time-outs are for one test, and
    a percentile over the file's tests would end its slowest, sound ones. A file without a measured test is
    left out, for a guess is no ground to end a test: there the runner's own time-out holds.

    Args:
        estimates: of the planned tests, by canonical id.
        factor: how many times its slowest a test may take, 1 or more.
        floor_s: no time-out is shorter, unless `ceiling_s` is.
        ceiling_s: no time-out is longer.

    Returns:
        Whole seconds (or `ceiling_s` itself) by file, sorted by name.
    """
    slowest: dict[str, float] = {}
    measured: set[str] = set()
    for name, one in estimates.items():
        file = name.partition("::")[0]
        slowest[file] = max(slowest.get(file, 0.0), one.spread)
        if one.source is Source.MEASURED:
            measured.add(file)
    return {
        # Ids hold file names encoded, plans hold them plain.
        unquote(file, errors="surrogatepass"): min(ceiling_s, max(floor_s, math.ceil(factor * slowest[file])))
        for file in sorted(measured)
    }


def test_timeouts(
    spread: Mapping[str, float], *, factor: float, floor_s: float, ceiling_s: float
) -> dict[str, float]:
    """Seconds after which a test counts as hung, by canonical id: `factor` times its own 95th percentile.

    Args:
        spread: the 95th percentile of each measured test's times, in seconds.
        factor: how many times that a test may take, 1 or more.
        floor_s: no time-out is shorter, unless `ceiling_s` is.
        ceiling_s: no time-out is longer.
    """
    return {name: min(ceiling_s, max(floor_s, math.ceil(factor * one))) for name, one in spread.items()}
