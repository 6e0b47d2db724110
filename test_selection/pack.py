"""The planner: packing with set-up costs, so that all shards end at about the same time.

Each step is deterministic. Files are first packed as if tests could be cut at any second (`fluid`), which
settles which shards touch which file and for how long. Whole tests are then dealt out to those shards,
longest first, each to where most of the file's time is still owed, and the longest shards are relieved test
by test (`layout`). Where the plan ends above the lower bound (`bound`), packings are repaired before their
tests are dealt out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from test_selection.bound import ROUNDING, longest_test, lower_bound
from test_selection.catalog import CatalogTest
from test_selection.errors import UsageError
from test_selection.files import collector_paused
from test_selection.fluid import Packing, pack, repair
from test_selection.layout import MANY_TESTS, Layout, deal_shares, relieve
from test_selection.limits import NO_LIMITS, Cards, Limits
from test_selection.loads import Chains, FileLoad, file_loads, gather_chains
from test_selection.plan import Group, Plan, Shard, fingerprint


def deal_whole_files(loads: Sequence[FileLoad], cards: Cards, max_files: int | None) -> Layout:
    """Give each file, widest and longest first, to the shard that ends soonest and has room for a file.

    Raises:
        UsageError: wide shards leave too few cards for the other files.
    """
    by_file: dict[str, list[int]] = {}
    for number, load in enumerate(loads):
        by_file.setdefault(load.file, []).append(number)
    width = {file: max(loads[number].cards for number in rows) for file, rows in by_file.items()}
    widths, speeds = _open(sorted(width.values(), reverse=True), cards, max_files or len(by_file))
    layout = Layout(loads, widths, speeds, max_files)

    def whole(file: str) -> float:
        return sum(loads[number].whole_s for number in by_file[file])

    for file in sorted(by_file, key=lambda one: (-width[one], -whole(one), one)):
        rows = by_file[file]
        free = [shard for shard in range(len(widths)) if all(layout.takes(shard, number) for number in rows)]
        if not free:
            raise _no_room(len(by_file), cards.count, max_files)
        shard = min(free, key=lambda one: ((layout.work[one] + whole(file)) / speeds[one], one))
        for number in rows:
            layout.add(shard, number, range(len(loads[number].ids)))
    return layout


def _open(needed: Sequence[int], cards: Cards, max_files: int) -> tuple[list[int], list[float]]:
    """Shards for files of these widths, descending: as few as hold them, then one on each card left."""
    left = cards.left()
    widths: list[int] = []
    speeds: list[float] = []
    for at in range(0, len(needed), max_files):
        if left.best_speed(needed[at]) <= 0:
            raise _no_room(len(needed), cards.count, max_files)
        widths.append(needed[at])
        speeds.append(left.take(needed[at]))
    while left.count:
        widths.append(1)
        speeds.append(left.take(1))
    return widths, speeds


def _no_room(files: int, cards: int, max_files: int | None) -> UsageError:
    return UsageError(
        f"{files} files, some on several cards at once, do not fit on {cards} cards "
        f"with at most {max_files} files a shard",
        where="max_files",
        remedy=f"allow {math.ceil(files / cards) + 1} files a shard or more, or plan for more cards",
    )


# Within a fifth of a per cent of the bound there is nothing left to win.
GOOD = 1.002
# Above that, another way of packing is worth its time.
FAIR = 1.005
# So often shards are packed anew.
STEPS, ROUNDS = 4_000, 12
# A split so much worse than the best one so far is not worth relieving.
NEARLY = 1.03
# A plan this far above its bound was kept there by a limit, where there is one.
MISSED = 1.01


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
        test_s: seconds expected of each test, by test id.
        file_s: set-up seconds (import and collect) of each file.
        shards: how many cards there are, each a worker's unless a test needs several at once; a shard that
            gets nothing stays in the plan, empty.
        limits: what the plan must keep to.

    Returns:
        The plan, longest shard first. `binds` says what keeps it from being shorter: `nothing` (no tests),
        `longest test`, `chain` (the longest chain), `wide tests` (those that need several cards), `files a
        shard`, `set-up` (at least half of the time is set-up), or `balance` (the tests themselves: more
        shards help).

    Raises:
        UsageError: `shards` is below 1, or the limits cannot be kept.
    """
    if shards < 1:
        raise UsageError(f"cannot plan for {shards} shards", remedy="ask for 1 shard or more")
    if limits.speeds and len(limits.speeds) != shards:
        raise UsageError(
            f"{len(limits.speeds)} speeds are given for {shards} cards",
            where="speeds",
            remedy="give one factor for each card, or none",
        )
    with collector_paused():
        return _make_plan(tests, test_s, file_s, shards, limits)


def _make_plan(
    tests: Sequence[CatalogTest],
    test_s: Mapping[str, float],
    file_s: Mapping[str, float],
    shards: int,
    limits: Limits,
) -> Plan:
    chains = gather_chains(tests, limits)
    loads = file_loads(tests, test_s, file_s, limits, chains)
    speeds = tuple(sorted(limits.speeds, reverse=True))
    cards = Cards(count=shards, speeds=speeds if any(speed != 1 for speed in speeds) else ())
    _check_room(loads, shards, limits.max_files)
    bound = lower_bound(loads, shards, cards)
    packing = pack(loads, cards, bound, limits.max_files)
    layout = deal_whole_files(loads, cards, limits.max_files) if packing is None else deal_shares(packing)
    relieve(layout, goal=bound * GOOD)
    plainly = not cards.speeds and limits.max_files is None and all(load.cards == 1 for load in loads)
    # Many tests are dealt out finely at once; there, looking further wins less than a thousandth.
    few = sum(len(load.ids) for load in loads) <= MANY_TESTS
    if few and plainly and packing is not None and layout.makespan > bound * GOOD:
        layout = _better_layout(layout, packing, bound)
    made = _shards(layout, chains, limits.timeouts)
    makespan = max(shard.expected_s for shard in made)
    return Plan(
        fingerprint=fingerprint(made),
        bound_s=min(bound, makespan),
        makespan_s=makespan,
        binds=_binds(loads, made, bound, limits.max_files, chains),
        shards=made,
    )


def _check_room(loads: Sequence[FileLoad], shards: int, max_files: int | None) -> None:
    widest = max(loads, key=lambda load: load.cards, default=None)
    if widest is not None and widest.cards > shards:
        raise UsageError(
            f"{widest.ids[0]!r} needs {widest.cards} cards at once and there are {shards}",
            where="cards",
            remedy=f"plan for {widest.cards} cards or more, or leave it out",
        )
    files = len({load.file for load in loads})
    if max_files is not None and files > max_files * shards:
        raise UsageError(
            f"{files} files do not fit on {shards} cards with at most {max_files} files a shard",
            where="max_files",
            remedy=f"allow {math.ceil(files / shards)} files a shard, or plan for "
            f"{math.ceil(files / max_files)} cards",
        )


def _better_layout(layout: Layout, packing: Packing, bound: float) -> Layout:
    """Repair the packing, from another seed each time, until a layout is within FAIR times the bound."""
    shares = packing.shares
    for seed in range(ROUNDS):
        if layout.makespan <= bound * FAIR:
            break
        packing.shares = shares
        repair(packing, bound * GOOD, STEPS, seed=seed)
        other = deal_shares(packing)
        if other.makespan <= layout.makespan * NEARLY:
            relieve(other, goal=bound * GOOD, thoroughly=True)
        layout = min(layout, other, key=lambda one: one.makespan)
    return layout


def _shards(layout: Layout, chains: Chains, timeouts: Mapping[str, float]) -> tuple[Shard, ...]:
    rows = []
    for shard, content in enumerate(layout.content):
        held: dict[tuple[str, str], tuple[float, list[str]]] = {}
        expected: list[float] = []
        for number, tests in content.items():
            load = layout.loads[number]
            names = map(load.ids.__getitem__, tests)
            expected += map(load.seconds.__getitem__, tests)
            # Tests of one file but of several widths meet in one group; those that run alone never do.
            key = (load.file, load.ids[0] if load.alone else "")
            held.setdefault(key, (load.setup_s, []))[1].extend(names)
        expected += [setup for setup, _ in held.values()]
        groups = tuple(
            _group(file, names, chains, alone=bool(alone), timeout_s=timeouts.get(file))
            for (file, alone), (_, names) in sorted(held.items())
        )
        seconds = math.fsum(expected) / layout.speeds[shard]
        rows.append((-seconds, layout.widths[shard], -layout.speeds[shard], groups))
    rows.sort(key=lambda row: (row[0], not row[3], row[1], row[2], [(one.file, one.ids) for one in row[3]]))
    return tuple(
        Shard(index=index, expected_s=-negated, groups=groups, cards=cards, speed=-slowness)
        for index, (negated, cards, slowness, groups) in enumerate(rows)
    )


def _group(file: str, names: list[str], chains: Chains, *, alone: bool, timeout_s: float | None) -> Group:
    """A group of tests in the order of their ids, each chain where its first test stands."""
    names.sort()
    ids: list[str] = []
    places: list[tuple[int, int]] = []
    for name in names if chains else ():
        chain = chains.get(name, (name,))
        if len(chain) > 1:
            places.append((len(ids), len(chain)))
        ids += chain
    return Group(file=file, ids=tuple(ids or names), alone=alone, chains=tuple(places), timeout_s=timeout_s)


def _binds(
    loads: Sequence[FileLoad], shards: Sequence[Shard], bound: float, max_files: int | None, chains: Chains
) -> str:
    if not loads:
        return "nothing"
    if bound <= longest_test(loads) * (1 + ROUNDING) and len(shards) > 1:
        longest = max(loads, key=lambda load: load.setup_s + load.seconds[0])
        return "chain" if longest.ids[0] in chains else "longest test"
    makespan = shards[0].expected_s
    if makespan > bound * MISSED:
        if max_files is not None:
            return "files a shard"
        if any(load.cards > 1 for load in loads):
            return "wide tests"
    total = sum(shard.expected_s for shard in shards)
    tests = sum(load.total_s for load in loads)
    return "set-up" if total > 0 and tests <= total / 2 else "balance"
