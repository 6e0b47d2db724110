"""Laying the files of a group along its shards, cut only at the borders between them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from test_selection.draws import Draws
from test_selection.fluid import Share
from test_selection.grain import whole_grains
from test_selection.loads import FileLoad

# Ways to lay one group along its shards that are tried.
MAX_LAID = 48
# What is left over goes to the last shard; where that is too much, the others are filled a little higher.
LEVELS = (1.0, 1.002, 1.005)


def lay(loads: Sequence[FileLoad], files: Sequence[int], shards: int, limit: float) -> list[list[Share]]:
    """Lay files along shards in the best of several ways."""
    if shards == 1:
        return [[(number, loads[number].total_s) for number in files]]
    rnd = Draws(shards)
    best: list[list[Share]] = []
    peak = math.inf
    order = sorted(files, key=lambda one: (-loads[one].whole_s, one))
    ways = [(level * limit, thinly) for level in LEVELS for thinly in (False, True)]
    for number in range(MAX_LAID):
        found = _laid(loads, order, shards, ways[number % len(ways)][0], thinly=ways[number % len(ways)][1])
        ends = max(sum(loads[one].setup_s + seconds for one, seconds in shares) for shares in found)
        if ends < peak:
            best, peak = found, ends
        if peak <= limit * (1 + 1e-6):
            break
        if number % len(ways) == len(ways) - 1:
            rnd.shuffle(order)
    return best


def _laid(
    loads: Sequence[FileLoad], order: Sequence[int], shards: int, limit: float, *, thinly: bool
) -> list[list[Share]]:
    """Whole files where they fit beside the one cut at the border, the cheapest to set up.

    What was cut at the last border is ended as soon as it fits; or, `thinly`, fills shards beside whole files
    for as long as there are any.
    """
    left = {number: loads[number].total_s for number in order}
    found: list[list[Share]] = []
    carried = -1
    for shard in range(shards):
        shares: list[Share] = []
        room = limit
        last = shard == shards - 1
        if carried in left and not last and not thinly:
            whole = loads[carried].setup_s + left[carried]
            if whole <= room:
                shares.append((carried, left.pop(carried)))
                room -= whole
        cheap = sorted(left, key=lambda one: (loads[one].setup_s, -left[one]))
        keep = carried if carried in left else cheap[0] if cheap and not last else -1
        spare = loads[keep].setup_s if keep >= 0 else 0.0
        for number in list(left):
            whole = loads[number].setup_s + left[number]
            if last or (number != keep and whole <= room - spare):
                shares.append((number, left.pop(number)))
                room -= whole
        for number in ([keep] if keep in left else []) + [
            one for one in cheap if one in left and one != keep
        ]:
            seconds = whole_grains(loads[number], room - loads[number].setup_s)
            if 1e-9 * limit < seconds:
                seconds = min(seconds, left[number])
                shares.append((number, seconds))
                left[number] -= seconds
                carried = number
                if left[number] <= 1e-9 * limit:
                    del left[number]
                    room -= loads[number].setup_s + seconds
                    continue
                break
        found.append(shares)
    return found
