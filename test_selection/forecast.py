"""Makespan against cards: what more bring, where they stop paying, and how many a wanted makespan takes.

All from the lower bound of `test_selection.bound`, which plans come within a per cent of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from test_selection.bound import longest_test, lower_bound
from test_selection.errors import UsageError
from test_selection.loads import FileLoad

# Twice the cards that bring less than this share stop paying.
PAYS = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The bound on so many cards, in seconds, and what binds there: longest test, set-up or balance."""

    cards: int
    bound_s: float
    binds: str


def curve(loads: Sequence[FileLoad], cards: Sequence[int]) -> list[Point]:
    """The bound on each number of cards; it never rises with more of them."""
    points: list[Point] = []
    for count in sorted(set(cards)):
        bound = lower_bound(loads, count)
        # Two searches may end a rounding apart.
        bound = min(bound, points[-1].bound_s) if points else bound
        points.append(Point(cards=count, bound_s=bound, binds=_binds(loads, count, bound)))
    return points


def doublings(most: int) -> list[int]:
    """1, 2, 4 … and `most`."""
    return sorted({*(2**power for power in range(most.bit_length())), most})


def stops_paying(loads: Sequence[FileLoad], most: int) -> int:
    """The least power of two below `most` from which twice the cards bring less than a tenth; else `most`."""
    count = 1
    while count < most:
        if lower_bound(loads, min(2 * count, most)) >= (1 - PAYS) * lower_bound(loads, count):
            return count
        count *= 2
    return most


def cards_within(loads: Sequence[FileLoad], seconds: float, most: int) -> int:
    """The least number of cards on which the bound is within `seconds`.

    Raises:
        UsageError: the longest test with its set-up takes longer, or `most` cards are too few.
    """
    longest = longest_test(loads)
    if longest > seconds:
        raise UsageError(
            f"no number of cards ends within {seconds:g} s: "
            f"the longest test takes {longest:.1f} s with set-up",
            remedy="ask for more seconds, or cut or leave out that test",
        )
    if (bound := lower_bound(loads, most)) > seconds:
        raise UsageError(
            f"{most:,} cards end after {bound:.1f} s at the soonest, not within {seconds:g} s",
            remedy="ask for more seconds or a smaller stage",
        )
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        if lower_bound(loads, middle) <= seconds:
            high = middle
        else:
            low = middle
    return high


def _binds(loads: Sequence[FileLoad], cards: int, bound: float) -> str:
    if not loads:
        return "nothing"
    if cards > 1 and bound <= longest_test(loads) * (1 + 1e-6):
        return "longest test"
    tests = sum(load.total_s for load in loads)
    return "set-up" if tests <= bound * cards / 2 else "balance"
