"""Packing by groups: what the linear program of `groups` takes most of is taken whole, over and over."""

from __future__ import annotations

import math
from collections.abc import Sequence

from test_selection.bound import ROUNDING
from test_selection.cards import Cards
from test_selection.fluid import Packing
from test_selection.grain import whole_grains
from test_selection.groups import Classes, Prices, classify, first_columns
from test_selection.linear import Column, cover
from test_selection.loads import FileLoad

# A group: how many shards, and of each class how many files.
Group = tuple[int, dict[int, int]]


def grouped(loads: Sequence[FileLoad], cards: Cards, limit: float) -> Packing | None:
    """Pack within `limit` seconds a shard; None where the groups found ask for more shards."""
    classes = classify(loads, cards.count, limit, up=True)
    if classes is None or classes.shards <= 0 or not classes.sizes or max(classes.sizes) > classes.rooms[0]:
        return None
    groups = _dive(classes)
    if groups is None:
        return None
    packing = Packing(loads, cards, limit)
    for number, load in enumerate(loads):
        packing.shares += [[(number, one)] for one in _full_pieces(load, limit)]
    left = [list(members) for members in classes.members]
    for together, held in groups:
        numbers = [left[place].pop() for place, times in held.items() for _ in range(times)]
        packing.shares += _chain(loads, numbers, together, limit)
    if len(packing.shares) > cards.count:
        return None
    packing.shares += [[] for _ in range(cards.count - len(packing.shares))]
    packing.widths = [1] * cards.count
    packing.speeds = [1.0] * cards.count
    return packing


def _dive(classes: Classes) -> list[Group] | None:
    counts = [len(members) for members in classes.members]
    shards = classes.shards
    pool: dict[Column, None] = {}
    groups: list[Group] = []
    while any(counts):
        found = cover(counts, first_columns(classes, counts), lambda prices: _better(classes, pool, prices))
        if sum(column.cost * much for column, much in found.used) > shards * (1 + ROUNDING):
            return None
        whole = [(much, column) for column, much in found.used if column.cost and column in pool]
        taken = [(int(much + 1e-6), column) for much, column in whole if much >= 1 - 1e-6]
        if not taken:
            best = max(
                ((_fits(column, counts), much, -at, column) for at, (much, column) in enumerate(whole)),
                default=None,
                key=lambda row: row[:3],
            )
            if best is None:
                break
            taken = [(1, best[3])]
        for times, column in taken:
            for _ in range(times):
                held = {
                    place: min(int(much), counts[place]) for place, much in column.covers if counts[place]
                }
                if held:
                    groups.append((int(column.cost), held))
                    shards -= int(column.cost)
                    for place, much in held.items():
                        counts[place] -= much
    rest = {place: count for place, count in enumerate(counts) if count}
    if rest:
        groups.append((shards, rest))
    return groups if shards >= bool(rest) else None


def _fits(column: Column, counts: Sequence[int]) -> float:
    """Which part of a column there still is."""
    return sum(min(much, counts[place]) for place, much in column.covers) / sum(
        much for _, much in column.covers
    )


def _better(classes: Classes, pool: dict[Column, None], prices: Sequence[float]) -> Column | None:
    def worth(column: Column) -> float:
        return sum(prices[place] * much for place, much in column.covers) / column.cost

    known = max(pool, key=worth, default=None)
    if known is not None and worth(known) > 1 + 1e-7:
        return known
    found = Prices(classes, prices)
    if found.most <= 1 + 1e-7:
        return None
    column = found.column()
    if all(much == int(much) for _, much in column.covers):
        pool[column] = None
    return column


def _full_pieces(load: FileLoad, limit: float) -> list[float]:
    room = whole_grains(load, limit - load.setup_s)
    if room <= 0 or load.total_s <= 0:
        return []
    return [room] * max(0, math.ceil(load.total_s / room - ROUNDING) - 1)


def _chain(
    loads: Sequence[FileLoad], numbers: Sequence[int], together: int, limit: float
) -> list[list[tuple[int, float]]]:
    """Lay files along shards, the cheapest to set up cut where a shard is full."""
    left = {number: loads[number].total_s - sum(_full_pieces(loads[number], limit)) for number in numbers}
    shards: list[list[tuple[int, float]]] = []
    for shard in range(together):
        shares: list[tuple[int, float]] = []
        room = limit
        for number in sorted(left, key=lambda one: (-loads[one].setup_s - left[one], one)):
            whole = loads[number].setup_s + left[number]
            if whole <= room + ROUNDING * limit or shard == together - 1:
                shares.append((number, left.pop(number)))
                room -= whole
        for number in sorted(left, key=lambda one: (loads[one].setup_s, -left[one], one)):
            seconds = whole_grains(loads[number], room - loads[number].setup_s)
            if ROUNDING * limit < seconds < left[number]:
                shares.append((number, seconds))
                left[number] -= seconds
                break
        shards.append(shares)
    return shards
