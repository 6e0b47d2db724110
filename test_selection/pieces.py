"""Cutting a plan into pieces: runs of tests of one file that are claimed as a whole.

Where a shard's part of a file begins with a test longer than a piece, a short piece comes first: by its end
everybody sees how far off the file's estimates are, long before the long test would have shown it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from test_selection.estimates import UNKNOWN_TEST_S
from test_selection.plan import Group, Plan, Shard

# A shard is cut into about so many pieces: few enough to claim cheaply, many enough to even out with.
PIECES_A_SHARD = 48
# Taking a lock in a shared folder takes milliseconds; a piece is at least this long, in seconds.
LEAST_PIECE_S = 1.0
# A test that takes this share of the planned makespan is begun first.
LONG_SHARE = 0.2
# Cards that end a run end about so far apart.
MOST_PIECE_S = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Tests of one file that are claimed together.

    Attributes:
        file: the file that must be set up to run them.
        ids: test ids, in the order of running.
        expected_s: seconds the tests are expected to take, without set-up.
        number: its place among its shard's pieces, the same on every host that cuts the plan.
    """

    file: str
    ids: tuple[str, ...]
    expected_s: float
    number: int = field(default=0, compare=False)


def piece_seconds(plan: Plan) -> float:
    """Seconds a piece of this plan should have."""
    return max(min(plan.makespan_s / PIECES_A_SHARD, MOST_PIECE_S), LEAST_PIECE_S)


def order_groups(
    shard: Shard, shares: Mapping[str, int], test_s: Mapping[str, float], long_s: float = math.inf
) -> list[Group]:
    """The groups of a shard in the order of running.

    Files with a long test come first, for it cannot be shared. Then files that few shards touch: what stands
    last is stolen, and the more cards have its file set up, the more of them take it without another set-up.
    Among files that are this shard's alone the short one comes last: it can be handed over whole, and its
    set-up with it.

    Args:
        shard: whose groups.
        shares: how many shards touch each file.
        test_s: seconds expected of each test.
        long_s: from how many seconds on a test is long.
    """

    def key(group: Group) -> tuple[float, int, float, str]:
        seconds = [test_s.get(name, UNKNOWN_TEST_S) for name in group.ids]
        longest = max(seconds, default=0.0)
        return (
            -longest if longest >= long_s else 0.0,
            shares.get(group.file, 1),
            -math.fsum(seconds),
            group.file,
        )

    return sorted(shard.groups, key=key)


def shares_of(plan: Plan) -> dict[str, int]:
    """How many shards touch each file."""
    return Counter(group.file for shard in plan.shards for group in shard.groups)


def cut(group: Group, test_s: Mapping[str, float], seconds: float) -> list[Piece]:
    """Cut a group into pieces of about `seconds`, longest test or chain first.

    One that is longer is a piece by itself, and a chain is never cut.
    """
    order = sorted(
        (-math.fsum(test_s.get(name, UNKNOWN_TEST_S) for name in names), names) for names in _units(group)
    )
    pieces: list[Piece] = []
    ids: list[str] = []
    total = 0.0
    for negated, names in order:
        if ids and total - negated > seconds:
            pieces.append(Piece(file=group.file, ids=tuple(ids), expected_s=total))
            ids, total = [], 0.0
        ids += names
        total -= negated
    if ids:
        pieces.append(Piece(file=group.file, ids=tuple(ids), expected_s=total))
    return _with_probe(pieces, seconds)


def _units(group: Group) -> Iterator[tuple[str, ...]]:
    """What stays together: each chain, and each test of none."""
    free = 0
    for first, count in (*group.chains, (len(group.ids), 0)):
        yield from ((name,) for name in group.ids[free:first])
        if count:
            yield group.ids[first : first + count]
        free = first + count


def _with_probe(pieces: list[Piece], seconds: float) -> list[Piece]:
    """Where a long test would come first, a short piece before it: by then how far off the file is shows."""
    short = next((number for number, piece in enumerate(pieces) if piece.expected_s <= seconds), 0)
    return [pieces[short], *pieces[:short], *pieces[short + 1 :]] if short else pieces


def cut_plan(plan: Plan, test_s: Mapping[str, float], seconds: float | None = None) -> list[list[Piece]]:
    """The pieces of each shard in the order of running."""
    size = piece_seconds(plan) if seconds is None else seconds
    shares = shares_of(plan)
    long_s = plan.makespan_s * LONG_SHARE
    return [
        [piece for group in order_groups(shard, shares, test_s, long_s) for piece in cut(group, test_s, size)]
        for shard in plan.shards
    ]
