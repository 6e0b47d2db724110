"""Files whose tests take about the same are cut between tests, not at any second."""

from __future__ import annotations

import math

from test_selection.bound import ROUNDING
from test_selection.loads import FileLoad

# Tests of a file that differ by so little are counted, rather than poured.
ALIKE = 1.03
# Where so many fit, counting them wins nothing.
MANY = 10_000


def grain(load: FileLoad) -> float:
    """Seconds of each test of a file whose tests take about the same; 0 where they differ."""
    return load.total_s / len(load.seconds) if load.seconds[0] <= ALIKE * load.seconds[-1] else 0.0


def whole_grains(load: FileLoad, room: float) -> float:
    """Seconds of whole tests that `room` has place for, where a file's tests are alike."""
    one = grain(load)
    return math.floor(room / one + ROUNDING) * one if 0 < room < one * MANY else room
