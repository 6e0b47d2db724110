"""Who runs what when a card has nothing left: the policy of claiming pieces, for the runner and on paper.

A plan is cut into pieces, runs of tests of one file that are claimed as a whole. A card claims the pieces of
its own shard from the front. When they are gone it claims one piece at a time from the back of another
shard: of the shard that is expected to end last, counting the set-up of the piece's file where the card does
not have that file set up already. A card with nothing worth claiming asks again a little later, since what
is expected changes as pieces end: each file's estimate is scaled by what its pieces took so far.

Everything here is a function of its arguments, so that two cards that see the same claims think the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from test_selection.durations import UNKNOWN_TEST_S
from test_selection.plan import Group, Plan, Shard

# A shard is cut into about so many pieces: few enough to claim cheaply, many enough to even out with.
PIECES_A_SHARD = 64
# Taking a lock in a shared folder takes milliseconds; a piece is at least this long, in seconds.
LEAST_PIECE_S = 0.5


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
    return max(plan.makespan_s / PIECES_A_SHARD, LEAST_PIECE_S)


def order_groups(shard: Shard, shares: Mapping[str, int], test_s: Mapping[str, float]) -> list[Group]:
    """The groups of a shard in the order of running.

    Files that few shards touch come first: what stands last is stolen, and the more cards have its file set
    up, the more of them take it without another set-up. Ties go to the longest test first, then by name.

    Args:
        shard: whose groups.
        shares: how many shards touch each file.
        test_s: seconds expected of each test.
    """

    def key(group: Group) -> tuple[int, float, str]:
        longest = max((test_s.get(name, UNKNOWN_TEST_S) for name in group.ids), default=0.0)
        return shares.get(group.file, 1), -longest, group.file

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
    return pieces


def cut_plan(plan: Plan, test_s: Mapping[str, float], seconds: float | None = None) -> list[list[Piece]]:
    """The pieces of each shard in the order of running."""
    size = piece_seconds(plan) if seconds is None else seconds
    shares = shares_of(plan)
    return [
        [piece for group in order_groups(shard, shares, test_s) for piece in cut(group, test_s, size)]
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


def scale(took_s: float, expected_s: float, prior_s: float) -> float:
    """By how much a file's estimates are off, from its pieces so far; 1 until `prior_s` seconds say more."""
    return (took_s + prior_s) / (expected_s + prior_s) if expected_s + prior_s > 0 else 1.0


def expected_rest(left: Sequence[tuple[float, float, float]]) -> float:
    """Seconds that are left of a shard, from (expected seconds, scale, set-up still to pay) of each file."""
    return sum(seconds * factor + setup for seconds, factor, setup in left)
