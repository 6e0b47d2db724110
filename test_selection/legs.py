"""Dealing shards to legs: jobs of a CI, branches or pods that have some cards and serve several shards."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from test_selection.errors import NothingToRunError, UsageError
from test_selection.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a leg has to know of a shard: its seconds, and the cards it holds all the while."""

    index: int
    expected_s: float
    cards: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """A job that serves some shards.

    Attributes:
        shards: indices, sorted; they begin in this order, each as soon as it has its cards.
        cards: how many the leg has.
        expected_s: seconds until its last shard ends.
    """

    shards: tuple[int, ...]
    cards: int
    expected_s: float


def loads_of(plan: Plan) -> list[Load]:
    """The shards of a plan that have anything to do.

    Raises:
        NothingToRunError: none has.
    """
    found = [
        Load(index=shard.index, expected_s=shard.expected_s, cards=shard.cards)
        for shard in plan.shards
        if shard.groups
    ]
    if not found:
        raise NothingToRunError("the plan holds no test", remedy="select a share above 0 %, then plan again")
    return found


def choose_cards(loads: Sequence[Load], runner_cards: Sequence[int], legs: int) -> int:
    """The fewest cards of a leg with which so many legs give every shard cards of its own, else the most."""
    sizes = sorted(size for size in runner_cards if size > 0)
    wanted = sum(load.cards for load in loads)
    return next((size for size in sizes if size * legs >= wanted), sizes[-1])


def deal(
    loads: Sequence[Load], runner_cards: Sequence[int], *, cards_per_leg: int, legs: int | None = None
) -> list[Leg]:
    """Deal shards to legs so that these end at about the same time: longest first, to whoever is free first.

    A shard that needs more cards than `cards_per_leg` goes to legs that have them.

    Args:
        loads: the shards.
        runner_cards: cards a leg can have.
        cards_per_leg: of the usual leg; one of `runner_cards`, above 0.
        legs: how many there may be; None: as many as give every shard cards of its own.

    Returns:
        Legs with at least one shard each, the longest first, so that a CI that begins few at a time
        begins with those.

    Raises:
        UsageError: no runner has the cards that are asked for, or there are too few legs.
    """
    pools = _pools(loads, runner_cards, cards_per_leg)
    wanted = {size: _own_legs(members, size) for size, members in pools.items()}
    if legs is not None:
        if legs < len(pools):
            raise UsageError(
                f"--legs is {legs}, but shards need legs of {len(pools)} sizes",
                remedy=f"give --legs {len(pools)} or more, or a greater --cards-per-leg",
            )
        wanted = _share(pools, wanted, legs)
    dealt = [leg for size, members in pools.items() for leg in _deal_pool(members, size, wanted[size])]
    return sorted(dealt, key=lambda leg: (-leg.expected_s, leg.shards))


def _pools(loads: Sequence[Load], runner_cards: Sequence[int], usual: int) -> dict[int, list[Load]]:
    """The shards by the size of the legs they go to."""
    sizes = sorted(size for size in runner_cards if size > 0)
    if usual not in sizes:
        raise UsageError(
            f"--cards-per-leg is {usual}",
            remedy=f"runners have {', '.join(map(str, sizes))} cards; see `matrix.runner_cards`",
        )
    pools: dict[int, list[Load]] = {}
    for load in loads:
        size = next((one for one in sizes if one >= max(usual, load.cards)), None)
        if size is None:
            raise UsageError(
                f"shard {load.index} needs {load.cards} cards, but no runner has more than {sizes[-1]}",
                remedy="add such runners to `matrix.runner_cards`, or leave its tests out",
            )
        pools.setdefault(size, []).append(load)
    return dict(sorted(pools.items()))


def _own_legs(members: Sequence[Load], size: int) -> int:
    """How many legs give every shard cards of its own, by first fit decreasing."""
    room = [0] * len(members)  # cards still free in each leg that was opened
    opened = first = 0
    for load in sorted(members, key=lambda load: -load.cards):
        # Shards only get narrower: a leg without a free card never has one again.
        while first < opened and room[first] == 0:
            first += 1
        leg = next((one for one in range(first, opened) if room[one] >= load.cards), opened)
        if leg == opened:
            room[leg] = size
            opened += 1
        room[leg] -= load.cards
    return opened


def _share(pools: dict[int, list[Load]], most: dict[int, int], legs: int) -> dict[int, int]:
    """Share out legs over the pools by their work, at least one each and never more than useful."""
    work = {size: sum(load.expected_s * load.cards for load in members) for size, members in pools.items()}
    given = dict.fromkeys(pools, 1)
    for _ in range(legs - len(pools)):
        open_pools = [size for size in pools if given[size] < most[size]]
        if not open_pools:
            break
        given[max(open_pools, key=lambda size: (work[size] / (size * given[size]), -size))] += 1
    return given


def _deal_pool(members: Sequence[Load], size: int, legs: int) -> list[Leg]:
    free = [[0.0] * size for _ in range(legs)]  # when each card of each leg is free, sorted
    work = [0.0] * legs
    mine: list[list[Load]] = [[] for _ in range(legs)]
    for width in sorted({load.cards for load in members}, reverse=True):
        # Who can begin first; of those, who has the least to do.
        heap = [(free[leg][width - 1], work[leg], len(mine[leg]), leg) for leg in range(legs)]
        heapq.heapify(heap)
        same = [load for load in members if load.cards == width]
        for load in sorted(same, key=lambda load: (-load.expected_s, load.index)):
            start, _, _, leg = heap[0]
            free[leg][:width] = [start + load.expected_s] * width
            free[leg].sort()
            work[leg] += load.expected_s * width
            mine[leg].append(load)
            heapq.heapreplace(heap, (free[leg][width - 1], work[leg], len(mine[leg]), leg))
    return [_leg(sorted(one, key=lambda load: load.index), size) for one in mine if one]


def _leg(loads: Sequence[Load], size: int) -> Leg:
    """The leg with its end as it will come about: shards begin in the order of their indices."""
    free = [0.0] * size
    for load in loads:
        free[: load.cards] = [free[load.cards - 1] + load.expected_s] * load.cards
        free.sort()
    return Leg(shards=tuple(load.index for load in loads), cards=size, expected_s=free[-1])
