"""Below which makespan nobody could have gone on one day, had he known all of it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from test_selection.bound import ROUNDING, least
from test_selection.plan import Plan
from test_selection.world import Truth

# What a weighing charges for seconds beyond a share of the makespan. Dearer and lower, or cheaper and
# higher, prove nothing more: where they lie is a matter of how far cards differ and how large set-ups are.
FROM_SHARES = (0.95, 0.9, 0.8, 1.0)
SURCHARGES = (0.3, 0.5, 0.2, 0.8)
# The makespan is searched so far above the plain bound, halving so often.
FARTHEST = 1.1
HALVINGS = 9


class _File(NamedTuple):
    setup_s: float
    total_s: float
    longest_s: float


def true_bound(plan: Plan, truth: Truth) -> float:
    """Seconds below which no split of these tests over these cards could have ended, knowing all of it.

    As `bound.lower_bound`, with cards of their own speed, start and end: a file whose tests take D seconds
    and whose set-up takes s needs at least the k fastest cards that together do D + k s until T. There each
    file may have the fastest cards; that all files cannot have them is what `_weighed_bound` adds. Infinite
    where the living cards never could.
    """
    files = _files(plan, truth)
    if not files:
        return 0.0
    plain = _plain_bound(files, truth)
    return plain if math.isinf(plain) else _weighed_bound(files, truth, plain)


def _plain_bound(files: Sequence[_File], truth: Truth) -> float:

    def fits(limit: float) -> bool:
        rooms = _rooms(truth, limit)
        return _work(files, rooms) <= math.fsum(rooms) * (1 + ROUNDING)

    fastest = max(truth.speeds)
    start = max(
        max(one.setup_s + one.longest_s for one in files) / fastest,
        math.fsum(one.setup_s + one.total_s for one in files) / math.fsum(truth.speeds),
    )
    if math.isinf(min(truth.dies_at, default=0.0)) or math.isinf(max(truth.dies_at)):
        return least(fits, start)
    return least(fits, start) if fits(max(truth.dies_at) + 1) else math.inf


def _files(plan: Plan, truth: Truth) -> list[_File]:
    """Set-up, seconds of all tests and longest test of each file."""
    by_file: dict[str, list[str]] = {}
    for shard in plan.shards:
        for group in shard.groups:
            by_file.setdefault(group.file, []).extend(group.ids)
    return [
        _File(
            truth.setup_s[file],
            math.fsum(truth.test_s[name] for name in names),
            max((truth.test_s[name] for name in names), default=0.0),
        )
        for file, names in sorted(by_file.items())
    ]


def _rooms(truth: Truth, limit: float) -> list[float]:
    """Seconds of work each card can do until `limit`, most first."""
    cards = zip(truth.speeds, truth.starts_at, truth.dies_at, strict=True)
    return sorted(
        (speed * max(0.0, min(limit, dies) - starts) for speed, starts, dies in cards), reverse=True
    )


def _work(files: Sequence[_File], rooms: Sequence[float]) -> float:
    sums = list(accumulate(rooms))
    work, count, cheapest = 0.0, 0, min(setup for setup, *_ in files)
    for setup, total, _ in files:
        # Past the cards whose room is below the set-up, more of them do not help.
        useful = bisect_left(rooms, -setup, key=lambda room: -room)
        pieces = 1
        if total > 0:
            pieces += _first_enough(sums, useful, setup, total * (1 - ROUNDING))
            if pieces > useful:
                return math.inf
        work += total + setup * pieces
        count += pieces
    # Every card that is used sets up something, and one whose room is below the cheapest set-up is not used.
    used = bisect_left(rooms, -cheapest, key=lambda room: -room)
    return work + cheapest * max(0, used - count) + math.fsum(rooms[used:])


def _first_enough(sums: Sequence[float], useful: int, setup: float, total: float) -> int:
    """How few of the fastest cards are not enough for a file."""
    return bisect_left(range(useful), total, key=lambda k: sums[k] - setup * (k + 1))


def _weighed_bound(files: Sequence[_File], truth: Truth, plain: float) -> float:
    low, high = plain, plain * FARTHEST
    weighings = [(share, surcharge) for share in FROM_SHARES for surcharge in SURCHARGES]
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        rooms = _rooms(truth, middle)
        proof = next((one for one in weighings if _proves(files, rooms, one[0] * middle, one[1])), None)
        if proof is None:
            high = middle
        else:
            low = middle
            # What proved one limit proves the next as a rule.
            weighings.remove(proof)
            weighings.insert(0, proof)
    return low


def _proves(files: Sequence[_File], rooms: Sequence[float], from_s: float, surcharge: float) -> bool:
    """Whether the pieces weigh more than the cards hold, however the files are cut.

    A piece that keeps a card busy for x seconds weighs f(x) = x + surcharge max(0, x - from_s). f is convex
    and 0 at 0, so f(x) + f(y) <= f(x + y): what fits on a card of room r weighs f(r) at most.
    """
    holds = math.fsum(weigh(room, from_s, surcharge) for room in rooms)
    return _least_weight(files, rooms[0], from_s, surcharge) > holds * (1 + ROUNDING)


def weigh(seconds: float, from_s: float, surcharge: float) -> float:
    """Seconds, and those beyond `from_s` once more by the surcharge."""
    return seconds + surcharge * max(0.0, seconds - from_s)


def _least_weight(files: Sequence[_File], most: float, from_s: float, surcharge: float) -> float:
    """What the files weigh at least, no piece being longer than `most` seconds.

    k pieces of D seconds and a set-up s each weigh least when they are equal, k f(D / k + s). As f has one
    kink this has one in k, at k = D / (from_s - s), and is linear on both sides: it is least next to the
    kink, or in as few pieces as there can be.
    """
    weight = 0.0
    for setup, total, _ in files:
        if total <= 0:
            weight += weigh(setup, from_s, surcharge)
            continue
        room = most - setup
        if room <= 0:
            return math.inf
        fewest = max(1, math.ceil(total / room - ROUNDING))
        counts = {fewest}
        if from_s > setup:
            kink = total / (from_s - setup)
            counts |= {max(fewest, math.floor(kink)), max(fewest, math.ceil(kink))}
        weight += min(count * weigh(total / count + setup, from_s, surcharge) for count in counts)
    return weight
