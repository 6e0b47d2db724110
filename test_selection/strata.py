"""Low-discrepancy order: every prefix of a list holds each stratum about in proportion. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

T = TypeVar("T")


def spread(
    rows: Sequence[T], strata: Sequence[Callable[[T], Hashable]], offset: Callable[[T], float]
) -> list[T]:
    """Order rows so that every stratum is spread evenly, as systematic sampling spreads its sample.

    The j-th of a stratum's n rows stands at (j + u) / n of the way, u being the stratum's own offset: in
    any prefix the stratum is within one row of its share of the way gone. Done for the finest stratum first
    and for coarser ones on its result, so that a coarse stratum's rows come in the order that spreads the
    finer ones within it.

    Args:
        rows: in an order of their own, such as by hash, which settles every tie.
        strata: a row's stratum at each level, the finest first, each nested in the next.
        offset: a number in [0, 1) that the first row of a stratum lends it.

    Returns:
        The same rows.
    """
    order = list(rows)
    for stratum in strata:
        order = _spread_once(order, stratum, offset)
    return order


def _spread_once(rows: list[T], stratum: Callable[[T], Hashable], offset: Callable[[T], float]) -> list[T]:
    keys = [stratum(row) for row in rows]
    sizes = Counter(keys)
    begun: dict[Hashable, float] = {}
    places: list[float] = []
    for row, key in zip(rows, keys, strict=True):
        at = begun.get(key)
        if at is None:
            at = offset(row)
        places.append(at / sizes[key])
        begun[key] = at + 1
    # Sorting is stable, so that rows at the same place keep the order they came in.
    return [rows[number] for number in sorted(range(len(rows)), key=places.__getitem__)]
