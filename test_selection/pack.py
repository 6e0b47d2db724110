"""The planner: packing with set-up costs, so that all shards end at about the same time.

Three steps, each deterministic. Files are first packed as if tests could be cut at any second (binary
search on the makespan T; full pieces of T - s_f get a shard of their own, what remains of each file is
packed best fit decreasing, and cut only where no shard has room for it whole). That settles which shards
touch which file and for how long. Whole tests are then dealt out to those shards, longest first, each to
where most of the file's time is still owed. Last, the longest shards are relieved test by test.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from test_selection.balance import Layout, deal_greedily, relieve
from test_selection.bound import ROUNDING, FileLoad, file_loads, least, longest_test, lower_bound
from test_selection.catalog import CatalogTest
from test_selection.errors import UsageError
from test_selection.limits import NO_LIMITS, Limits, check_limits
from test_selection.plan import Group, Plan, Shard, fingerprint

# Within a fifth of a per cent of the bound there is nothing left to win.
GOOD = 1.002
SEARCH_TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Seconds of one file's tests that a shard is to take."""

    load: int
    seconds: float


def make_plan(
    tests: Sequence[CatalogTest],
    *,
    test_s: Mapping[str, float],
    file_s: Mapping[str, float],
    shards: int,
    limits: Limits = NO_LIMITS,
) -> Plan:
    """Split tests over shards; the order of `tests` does not count.

    Args:
        tests: what is to run; ids are unique.
        test_s: seconds expected of each test, by canonical id.
        file_s: set-up seconds (import and collect) of each file.
        shards: how many workers there are; a shard that gets nothing stays in the plan, empty.
        limits: what the plan must keep to.

    Returns:
        The plan, longest shard first. `binds` says what keeps it from being shorter: `nothing` (no tests),
        `longest test`, `set-up` (at least half of the time is set-up), or `balance` (the tests themselves:
        more shards help).

    Raises:
        UsageError: `shards` is below 1.
    """
    if shards < 1:
        raise UsageError(f"cannot plan for {shards} shards", remedy="ask for 1 shard or more")
    check_limits(limits, shards)
    loads = file_loads(tests, test_s, file_s)
    bound = lower_bound(loads, shards)
    layout = _best_layout(loads, shards, bound)
    made = _shards(layout)
    makespan = max(shard.expected_s for shard in made)
    return Plan(
        fingerprint=fingerprint(made),
        bound_s=min(bound, makespan),
        makespan_s=makespan,
        binds=_binds(loads, made, bound),
        shards=made,
    )


def _best_layout(loads: Sequence[FileLoad], shards: int, bound: float) -> Layout:
    limit = least(
        lambda limit: pack_shares(loads, shards, limit) is not None, bound, tolerance=SEARCH_TOLERANCE
    )
    layout = deal_shares(loads, pack_shares(loads, shards, limit) or [], shards)
    if layout.makespan <= bound * GOOD:
        return layout
    relieve(layout, goal=bound * GOOD)
    if layout.makespan <= bound * GOOD:
        return layout
    # With a few long tests a shard, shares of seconds say little: deal whole tests out from the start.
    other = deal_greedily(loads, shards)
    relieve(other, goal=bound * GOOD)
    return min(layout, other, key=lambda one: one.makespan)


def pack_shares(loads: Sequence[FileLoad], shards: int, limit: float) -> list[list[Share]] | None:
    """Pack the files' seconds into shards of `limit` seconds, each share with its file's set-up.

    Returns:
        The shares of each shard in use, or None where they do not fit.
    """
    packing = _Packing(shards=shards, limit=limit)
    rest: list[tuple[float, int, float]] = []
    for number, load in enumerate(loads):
        capacity, left = limit - load.setup_s, load.total_s
        while left > capacity * (1 + ROUNDING):
            if capacity <= 0 or len(packing.packed) >= shards:
                return None
            packing.packed.append([Share(load=number, seconds=capacity)])
            left -= capacity
        rest.append((-(load.setup_s + left), number, left))
    fits = all(packing.place(number, left, loads[number].setup_s) for _, number, left in sorted(rest))
    return packing.packed if fits else None


@dataclass(slots=True, kw_only=True)
class _Packing:
    """Shards being filled up to `limit` seconds; `rooms` holds (room, shard) of those that can take more."""

    shards: int
    limit: float
    packed: list[list[Share]] = field(default_factory=list)
    rooms: list[tuple[float, int]] = field(default_factory=list)

    def place(self, number: int, left: float, setup: float) -> bool:
        """Put what is left of a file where it fits best; cut it only where no shard takes it whole."""
        slack = ROUNDING * self.limit
        while True:
            at = bisect_left(self.rooms, (setup + left - slack, -1))
            taken = left
            if at < len(self.rooms):
                room, shard = self.rooms.pop(at)
            elif len(self.packed) < self.shards:
                room, shard = self.limit, len(self.packed)
                self.packed.append([])
            elif self.rooms and self.rooms[-1][0] - setup > slack:
                room, shard = self.rooms.pop()
                taken = room - setup
            else:
                return False
            self.packed[shard].append(Share(load=number, seconds=taken))
            insort(self.rooms, (room - setup - taken, shard))
            left -= taken
            if left <= slack:
                return True


def deal_shares(loads: Sequence[FileLoad], packed: Sequence[Sequence[Share]], shards: int) -> Layout:
    """Deal whole tests out to the shards that hold shares of their file, longest test first.

    Files with the longest tests come first; how far a shard ended above or below its due is made up for
    by the files dealt after, whose tests are finer.
    """
    layout = Layout(loads, shards)
    due: dict[int, dict[int, float]] = {}
    # What each shard got beyond its due so far; a shard not touched by a file any more saves its set-up.
    over = [0.0] * shards
    for shard, shares in enumerate(packed):
        for share in shares:
            row = due.setdefault(share.load, {})
            row[shard] = row.get(shard, 0.0) + share.seconds
    for number in sorted(due, key=lambda one: (len(due[one]) > 1, -loads[one].seconds[0], one)):
        row = due[number]
        owed = [(over[shard] - seconds, shard) for shard, seconds in sorted(row.items())]
        heapq.heapify(owed)
        for test, seconds in enumerate(loads[number].seconds):
            excess, shard = owed[0]
            layout.add(shard, number, test)
            heapq.heapreplace(owed, (excess + seconds, shard))
        for excess, shard in owed:
            saved = 0.0 if number in layout.content[shard] else loads[number].setup_s
            over[shard] = excess - saved
    return layout


def _shards(layout: Layout) -> tuple[Shard, ...]:
    rows = []
    for content in layout.content:
        groups, expected = [], []
        for number in sorted(content):
            load, tests = layout.loads[number], content[number]
            groups.append(Group(file=load.file, ids=tuple(sorted(load.ids[test] for test in tests))))
            expected += [load.setup_s, *(load.seconds[test] for test in sorted(tests))]
        rows.append((-math.fsum(expected), tuple(groups)))
    rows.sort(key=lambda row: (row[0], not row[1], [(group.file, group.ids) for group in row[1]]))
    return tuple(
        Shard(index=index, expected_s=-negated, groups=groups) for index, (negated, groups) in enumerate(rows)
    )


def _binds(loads: Sequence[FileLoad], shards: Sequence[Shard], bound: float) -> str:
    if not loads:
        return "nothing"
    if bound <= longest_test(loads) * (1 + ROUNDING) and len(shards) > 1:
        return "longest test"
    total = sum(shard.expected_s for shard in shards)
    tests = sum(load.total_s for load in loads)
    return "set-up" if total > 0 and tests <= total / 2 else "balance"
