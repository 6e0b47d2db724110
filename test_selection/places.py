"""Places on the ladder: which tests are in at which percentage, whoever came or went since it was locked."""

from __future__ import annotations

import bisect
import hashlib
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Literal

from test_selection.catalog import CatalogTest
from test_selection.errors import UsageError

By = Literal["count", "seconds"]
# A float holds 53 bits without rounding, so that no place comes out as 1.
_PLACE_BITS = 53


def hashed_place(name: str) -> float:
    """Where a test without a locked place stands in [0, 1): the SHA-256 of its canonical id, nothing else."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return (int.from_bytes(digest[:8], "big") >> (64 - _PLACE_BITS)) / 2.0**_PLACE_BITS


def share(percent: float) -> Fraction:
    """The decimal number that was written, as a part of 1: 0.1 % is exactly 1/1000.

    Raises:
        UsageError: `percent` is not between 0 and 100.
    """
    if not 0 <= percent <= 100:  # noqa: PLR2004  # per cent
        raise UsageError(f"{percent} is not a percentage", remedy="give a number from 0 to 100")
    return Fraction(str(percent)) / 100


def quota(percent: float, count: int) -> int:
    """How many of `count` tests are `percent` of them, rounded up."""
    return math.ceil(share(percent) * count)


def taken(percent: float, by: By, seconds: Sequence[float]) -> int:
    """How many of the first tests of a ladder are in.

    By count, the test at rank r of N is in where r / N < percent / 100, so that exactly ceil(p N / 100) are.
    By seconds it is in while those before it take less than `percent` of all.

    Args:
        percent: 0 to 100.
        by: what the share is of.
        seconds: of each test, in the order of the ladder.
    """
    if by == "count":
        return quota(percent, len(seconds))
    before = [0, *itertools.accumulate(milliseconds(seconds))]
    return bisect.bisect_left(before, share(percent) * before[-1], 0, len(seconds))


def milliseconds(seconds: Iterable[float]) -> list[int]:
    """Whole milliseconds, at least 1, so that sums are exact and every test weighs something."""
    return [max(1, round(one * 1000)) for one in seconds]


def percent_for(number: int, by: By, seconds: Sequence[float]) -> float:
    """The least percentage, in whole hundredths, at which the first `number` tests are all in."""
    if not number:
        return 0.0
    weights = [1] * len(seconds) if by == "count" else milliseconds(seconds)
    before = sum(weights[: number - 1])
    # In where those before it are less, so it takes a hundredth of a per cent more.
    return min(100.0, (before * 10_000 // sum(weights) + 1) / 100)


def below(name: str, percent: float) -> bool:
    """Whether a test without a locked place is in."""
    return hashed_place(name) < share(percent)


def seconds_of(tests: Iterable[CatalogTest], seconds: Mapping[str, float]) -> list[float]:
    """Seconds of each test, in order, as a lock keeps them: to the millisecond, at least one."""
    rows = [seconds.get(test.id, 0.0) for test in tests]
    return [whole / 1000 for whole in milliseconds(rows)]
