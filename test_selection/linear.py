"""A small linear program: cover the rows at the least cost, with columns found as they are needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

EPSILON = 1e-9
# Rounds of the simplex method at most; a bound from prices short of the best ones is a bound still.
MAX_ROUNDS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What one unit of a column covers, by row, and costs."""

    covers: tuple[tuple[int, float], ...]
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cover:
    """A cover of the rows.

    Attributes:
        used: how much is taken of each column, above 0.
        prices: what covering one more of each row costs.
    """

    used: tuple[tuple[Column, float], ...]
    prices: tuple[float, ...]


def cover(
    needs: Sequence[float],
    first: Sequence[Column],
    better: Callable[[Sequence[float]], Column | None],
    enough: Callable[[Sequence[float]], bool] | None = None,
) -> Cover:
    """Cover each row `needs` times by the revised simplex method with columns generated on the way.

    Args:
        needs: how often each row is to be covered, 0 or more.
        first: for each row a column that covers this row alone.
        better: a column that covers more than it costs at given prices, or None.
        enough: whether one may stop at these prices.
    """
    size = len(needs)
    basis: list[Column] = list(first)
    inverse = [[0.0] * size for _ in needs]
    level = [0.0] * size
    for row, column in enumerate(first):
        times = column.covers[0][1]
        inverse[row][row] = 1 / times
        level[row] = needs[row] / times
    prices = [0.0] * size
    for _ in range(MAX_ROUNDS):
        prices = [0.0] * size
        for column, line in zip(basis, inverse, strict=True):
            if column.cost:
                cost = column.cost
                prices = [price + cost * one for price, one in zip(prices, line, strict=True)]
        least = min(range(size), key=prices.__getitem__)
        if prices[least] < -EPSILON:
            entering: Column | None = Column(covers=((least, -1.0),), cost=0.0)
        else:
            if enough is not None and enough(prices):
                break
            entering = better(prices)
        if entering is None or not _pivot(basis, inverse, level, entering):
            break
    used = tuple((column, much) for column, much in zip(basis, level, strict=True) if much > EPSILON)
    return Cover(used=used, prices=tuple(max(0.0, price) for price in prices))


def _pivot(basis: list[Column], inverse: list[list[float]], level: list[float], entering: Column) -> bool:
    """Take a column into the basis for the one that it empties first."""
    moved = [sum(line[row] * much for row, much in entering.covers) for line in inverse]
    ratios = [(level[row] / one, -one, row) for row, one in enumerate(moved) if one > EPSILON]
    if not ratios:
        return False
    step, _, leaving = min(ratios)
    pivot = moved[leaving]
    line = inverse[leaving] = [one / pivot for one in inverse[leaving]]
    for row, one in enumerate(moved):
        if row != leaving and one:
            inverse[row] = [a - one * b for a, b in zip(inverse[row], line, strict=True)]
            level[row] = max(0.0, level[row] - one * step)
    level[leaving] = step
    basis[leaving] = entering
    return True
