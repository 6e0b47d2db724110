"""Who runs what when a card has nothing left: the policy of claiming pieces, for the runner and on paper.

A plan is cut into pieces, runs of tests of one file that are claimed as a whole. A card claims the pieces of
its own shard from the front. When they are gone it claims pieces from the back of other shards, one at a
time: first of the file it has set up, from the shard that is expected to end last.

Cards change files by a rule of their own, since that costs a set-up. At each tick everybody looks at the
files as pools, what is left of each and which cards are at it, with estimates scaled by what the file's
pieces took so far, and finds the least end that all can still reach: files that would end later want so
many more cards, files that would end earlier can spare so many. Idle cards, and cards that can be spared,
then go where they are wanted. That a card leaves early is what keeps set-ups from being paid for seconds.

A card sets a file up before it claims a piece of it, so that who has the file goes on with the pieces
meanwhile; one that has set a file up runs a piece of it before it may be spared again. Where a shard's part
of a file begins with a test longer than a piece, a short piece comes first: by its end everybody sees how
far off the file's estimates are, long before the long test would have shown it.

Everything here is a function of its arguments, so that two cards that see the same claims think the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from test_selection.durations import UNKNOWN_TEST_S
from test_selection.plan import Group, Plan, Shard

# A shard is cut into about so many pieces: few enough to claim cheaply, many enough to even out with.
PIECES_A_SHARD = 48
# Taking a lock in a shared folder takes milliseconds; a piece is at least this long, in seconds.
LEAST_PIECE_S = 1.0
# A test that takes this share of the planned makespan is begun first.
LONG_SHARE = 0.2
# Cards that end a run end about so far apart.
MOST_PIECE_S = 8.0
# How finely the common end is searched, as a share of the time until then.
PRECISION = 0.01
# Less than this is rounding.
SLACK_S = 1e-6
HORIZON = 20.0
FAR_S = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Tests of one file that are claimed together.

    Attributes:
        file: the file that must be set up to run them.
        ids: canonical ids, in the order of running.
        expected_s: seconds the tests are expected to take, without set-up.
    """

    file: str
    ids: tuple[str, ...]
    expected_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """What is left unclaimed of a shard, as the card that looks for work sees it.

    Attributes:
        shard: its index.
        file: the file of its last piece, which is the one to be claimed.
        piece_s: seconds that piece is expected to take.
        ends_at: when the shard is expected to end if nobody helps.
        setup_s: seconds the looking card needs to set the file up; 0 where it has it.
    """

    shard: int
    file: str
    piece_s: float
    ends_at: float
    setup_s: float


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
    counts: dict[str, int] = {}
    for shard in plan.shards:
        for group in shard.groups:
            counts[group.file] = counts.get(group.file, 0) + 1
    return counts


def cut(group: Group, test_s: Mapping[str, float], seconds: float) -> list[Piece]:
    """Cut a group into pieces of about `seconds`, longest test first; a longer test is a piece by itself."""
    order = sorted((-test_s.get(name, UNKNOWN_TEST_S), name) for name in group.ids)
    pieces: list[Piece] = []
    ids: list[str] = []
    total = 0.0
    for negated, name in order:
        if ids and total - negated > seconds:
            pieces.append(Piece(file=group.file, ids=tuple(ids), expected_s=total))
            ids, total = [], 0.0
        ids.append(name)
        total -= negated
    if ids:
        pieces.append(Piece(file=group.file, ids=tuple(ids), expected_s=total))
    return _with_probe(pieces, seconds)


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


def gain(rest: Rest, now: float) -> float:
    """Seconds by which the shard would end after the thief, if the thief claimed its last piece now."""
    return rest.ends_at - (now + rest.setup_s + rest.piece_s)


def choose_victim(rests: Iterable[Rest], now: float) -> Rest | None:
    """The shard to claim a piece from, or None where nobody is helped.

    Claiming helps where the thief is done with the piece before the shard would have ended without it. Of
    those it is the one with the greatest gain: a late shard, and a file the thief has set up. Ties go to the
    lower index.
    """
    helped = [(-gain(rest, now), rest.shard, rest) for rest in rests if gain(rest, now) > 0]
    return min(helped, key=lambda one: one[:2])[2] if helped else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """What is unclaimed of one file at the backs of shards, and the cards that are at it.

    Attributes:
        file: the file.
        rest_s: seconds expected of its unclaimed pieces.
        cards: how many cards run it, or will when they are through with the rest of their shards.
        free_s: the sum of the moments at which those cards are free for it.
        leavers: how many of the cards have it set up and nothing else to do, so that they may leave.
        setup_s: seconds another card needs to set it up.
    """

    file: str
    rest_s: float
    cards: int
    free_s: float
    leavers: int
    setup_s: float

    def wanted(self, end: float, now: float) -> float:
        """How many more cards it takes to end by then; infinite where a set-up leaves no time."""
        lacking = self.rest_s - max(0.0, self.cards * end - self.free_s)
        if lacking <= SLACK_S and self.cards:
            return 0.0
        room = end - now - self.setup_s
        return max(1.0, math.ceil(lacking / room)) if room > 0 else math.inf

    def spared(self, end: float) -> int:
        """How many cards may leave so that the others still end by then."""
        if self.cards == 0 or self.leavers == 0:
            return 0
        room = end - self.free_s / self.cards
        if room <= 0:
            return 0
        return max(0, min(self.leavers, self.cards - max(1, math.ceil(self.rest_s / room))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """Where cards are wanted, the most wanted file first, and from where they can be spared.

    Attributes:
        end_s: the common end.
        ends: when each wanted file ends if nobody comes; infinite where no card is at it.
        wanted: how many cards each file wants, the one that would end last first.
        spared: how many cards each file can spare.
    """

    end_s: float
    ends: Mapping[str, float]
    wanted: Mapping[str, int]
    spared: Mapping[str, int]


def rebalance(pools: Sequence[Pool], idle: int, now: float) -> Moves:
    """The least end at which the cards that are idle or can be spared are as many as are wanted.

    Args:
        pools: one a file.
        idle: cards that wait.
        now: the moment, in seconds.

    Returns:
        That end, and the cards wanted and spared there. Nobody moves where that would not help.
    """
    latest = max((_alone(pool) for pool in pools), default=now)
    # Long before the end there is time to see whether a card is really too many.
    worked_on = max((_alone(pool) for pool in pools if pool.cards), default=now)
    if worked_on - now > HORIZON * max((pool.setup_s for pool in pools), default=0.0):
        pools = [replace(pool, leavers=0) for pool in pools]
    low, high = now, latest
    if math.isinf(latest):
        high = now + 1.0
        while not _reachable(pools, idle, high, now):
            low, high = high, now + 2 * (high - now)
            if high - now > FAR_S:
                return Moves(end_s=latest, ends={}, wanted={}, spared={})
    while high - low > max(PRECISION * (high - now), 1e-3):
        middle = (low + high) / 2
        if _reachable(pools, idle, middle, now):
            high = middle
        else:
            low = middle
    lacking = [(-_alone(pool), pool.file, int(pool.wanted(high, now))) for pool in pools]
    lacking = sorted(row for row in lacking if row[2])
    wanted = {file: count for _, file, count in lacking}
    ends = {file: -negated for negated, file, _ in lacking}
    spared = {pool.file: count for pool in pools if (count := pool.spared(high))} if wanted else {}
    return Moves(end_s=high, ends=ends, wanted=wanted, spared=spared)


def _alone(pool: Pool) -> float:
    """When the pool ends if nobody comes or leaves."""
    return (pool.free_s + pool.rest_s) / pool.cards if pool.cards else math.inf


def _reachable(pools: Sequence[Pool], idle: int, end: float, now: float) -> bool:
    wanted = 0.0
    for pool in pools:
        wanted += pool.wanted(end, now)
    return wanted <= idle or wanted <= idle + sum(pool.spared(end) for pool in pools)


def scale(took_s: float, expected_s: float, prior_s: float) -> float:
    """By how much a file's estimates are off, from its pieces so far; 1 until `prior_s` seconds say more."""
    return (took_s + prior_s) / (expected_s + prior_s) if expected_s + prior_s > 0 else 1.0
