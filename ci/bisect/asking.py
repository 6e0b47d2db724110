"""What is asked next, when a commit has been tried enough, and when the search has ended; pure.

A round is some commits that are made ready and tried side by side. Where answers are sure it is the plain
search that cuts the rest into one more part than there are workers; where they are not, a commit is tried
until it is settled what it is, and commits beside the likeliest are tried again as long as that tells
something.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from ci.bisect.belief import FAIL, PASS, Belief, Tally

# What is stated has to hold at every failing rate, and not only on the average over those that are believed
# in: so a search goes on until a third of the doubt is left.
_MARGIN = 3
# Of what may be wrong in all, a single commit may have this part: it takes some commits to cut to one.
_SHARE = 8
# The bad end is tried so often at first, as all later answers are weighed by how often it fails.
_LEARN = 4
# From here on one hypothesis leads, and what tells it from the next is worth more than cutting.
_LEADS = 0.5
# Below this failing rate a commit is worth several hands at once.
_STEADY = 0.9
# A commit that is asked once more, as small doubts add up, is tried so often: one try would tell nothing.
_AGAIN = 10
_BOTH_ENDS = 4
# What a commit that cuts the rest must tell, as a part of what another would.
_WORTH = 0.3
_AT_ONCE = 6
Kind = Literal["found", "range", "never", "before"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far a search goes.

    Attributes:
        confidence: the probability that is stated when it ends.
        per_visit: tries of a commit in one round at most.
        in_all: tries at most.
    """

    confidence: float = 0.99
    per_visit: int = 100
    in_all: int = 2000

    @property
    def target(self) -> float:
        """The probability at which the search ends."""
        return 1 - (1 - self.confidence) / _MARGIN

    @property
    def doubt(self) -> float:
        """What a commit may be wrong by and is settled."""
        return (1 - self.target) / _SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a search came to.

    Attributes:
        kind: one commit; several not told apart; not broken at the bad end; broken at the good one.
        first: position of the first candidate.
        last: position of the last candidate.
        probability: that one of them broke it, or that the kind is right.
        sure: whether that is what was asked for.
        runners_up: other commits and their probabilities, the likeliest first.
    """

    kind: Kind
    first: int
    last: int
    probability: float
    sure: bool
    runners_up: tuple[tuple[int, float], ...]


def next_round(
    belief: Belief, limits: Limits, *, workers: int, barred: Collection[int] = (), tried: Collection[int] = ()
) -> list[int]:
    """The positions to ask side by side; one that fails rarely may come twice.

    Args:
        belief: of all that is known.
        limits: of the search.
        workers: how many commits can be tried at once.
        barred: positions that cannot be made ready or tried.
        tried: positions that were tried by this search; what only the history tells is not among them.

    Returns:
        Empty where the search has ended.
    """
    # However little is asked for, no commit is named that nobody tried anything of.
    if tried and ended(belief, limits, barred):
        return []
    askable = [one for one in range(belief.last + 1) if one not in barred]
    first = _ends(belief, workers, askable) if not tried else []
    chosen = [*first, *_spread(belief, limits, workers - len(first), [a for a in askable if a not in first])]
    if len(chosen) < workers and belief.bad_rate < _STEADY:
        chosen += [chosen[number % len(chosen)] for number in range(workers - len(chosen)) if chosen]
    return chosen


def ended(belief: Belief, limits: Limits, barred: Collection[int] = ()) -> bool:
    """Whether what is believed enough can be told no closer, or all tries are used up."""
    if sum(one.tries for one in belief.tallies.values()) >= limits.in_all:
        return True
    # "Broken before" and "not broken" both say that none between the ends did it, and a test that fails as
    # often at both ends is never told to be the one or the other.
    if belief.outside >= limits.target:
        return True
    # Hypotheses h and h + 1 differ in commit h alone; where that cannot be tried they stay together.
    together = 0.0
    for one, mass in enumerate(belief.masses):
        together = mass + (together if one - 1 in barred else 0.0)
        if together >= limits.target:
            return True
    return False


def enough(belief: Belief, limits: Limits, position: int, *, visit: Tally, learn: bool = False) -> bool:
    """Whether a commit has been tried enough for now.

    Args:
        belief: with what was seen.
        limits: of the search.
        position: of the commit.
        visit: what was seen of it in this round.
        learn: whether it is the bad end's first round.
    """
    if visit.tries >= limits.per_visit:
        return True
    before = belief.tallies.get(position, Tally()).tries - visit.tries
    if visit.tries < (_LEARN if learn else _AGAIN if before and belief.bad_rate < _STEADY else 1):
        return False
    return settled(belief, limits, position)


def at_once(belief: Belief, limits: Limits, position: int, *, visit: Tally, learn: bool = False) -> int:
    """How many tries of a commit are made in one go, as each go takes time to begin; 0: it was tried enough.

    That many as settle it if they all end as most did; one at first, since it may say all.
    """
    if enough(belief, limits, position, visit=visit, learn=learn):
        return 0
    left = limits.per_visit - visit.tries
    if learn and not visit.tries:
        return min(_LEARN, left)
    if not visit.tries:
        return 1
    likely = FAIL if visit.failed > visit.passed else PASS
    number = 0
    while number < min(left, _AT_ONCE) and not enough(belief, limits, position, visit=visit, learn=learn):
        belief, visit, number = belief.after(position, likely), visit + likely, number + 1
    return number


def settled(belief: Belief, limits: Limits, position: int) -> bool:
    """Whether it is clear what a commit is."""
    return min(belief.bad(position), belief.good(position)) <= limits.doubt


def finding(belief: Belief, limits: Limits) -> Finding:
    """What is known, however far the search came."""
    best, masses = belief.best, belief.masses
    seen = any(one.tries for one in belief.tallies.values())
    others = sorted(
        ((one, masses[one]) for one in range(1, belief.last + 1) if one != best), key=lambda row: -row[1]
    )
    runners_up = tuple(row for row in others[:3] if row[1] >= 1e-6)  # noqa: PLR2004  # shown as zero
    if best in (0, belief.last + 1) or belief.outside > _LEADS:
        kind: Kind = "before" if masses[0] >= masses[-1] else "never"
        best = 0 if kind == "before" else belief.last + 1
        sure = seen and belief.outside >= limits.confidence
        return Finding(
            kind=kind,
            first=best,
            last=best,
            probability=min(belief.outside, 1.0),
            sure=sure,
            runners_up=runners_up,
        )
    first = last = best
    while (whole := sum(masses[first : last + 1])) < limits.confidence and (first > 1 or last < belief.last):
        if last == belief.last or (first > 1 and masses[first - 1] >= masses[last + 1]):
            first -= 1
        else:
            last += 1
    return Finding(
        kind="found" if first == last else "range",
        first=first,
        last=last,
        probability=min(whole, 1.0),
        sure=seen and whole >= limits.confidence,
        runners_up=runners_up,
    )


def rounds_expected(commits: int, workers: int) -> int:
    """The rounds that sure answers take at most, with the one that looks at the ends.

    Args:
        commits: candidates.
        workers: side by side.
    """
    ends = 1 if workers < _BOTH_ENDS else 2
    left, rounds = -(-commits // max(workers - ends + 1, 1)), 1
    while left > 1:
        left, rounds = -(-left // (workers + 1)), rounds + 1
    return rounds


def _ends(belief: Belief, workers: int, askable: Collection[int]) -> list[int]:
    """The ends a first round looks at: the bad one always, the good one where hands are free for it."""
    wanted = [belief.last]
    if workers >= _BOTH_ENDS and 0 not in belief.tallies:
        wanted.append(0)
    return [one for one in wanted if one in askable]


def _spread(belief: Belief, limits: Limits, number: int, askable: list[int]) -> list[int]:
    """Positions that cut what is left into parts alike, or that tell most of who leads."""
    if number < 1:
        return []
    if belief.masses[belief.best] >= _LEADS:
        return _telling(belief, number, askable)
    inner = sum(belief.masses[1:-1]) or 1.0
    below, chosen = [], list[int]()
    whole = 0.0
    for position in range(belief.last + 1):
        whole += belief.masses[position] if position else 0.0
        below.append(whole / inner)
    open_ = [one for one in askable if 0 < one < belief.last and not settled(belief, limits, one)]
    for part in range(1, number + 1):
        left = [one for one in open_ if one not in chosen]
        if left:
            chosen.append(min(left, key=lambda one: abs(below[one] - part / (number + 1))))
    if not chosen:
        return _telling(belief, number, askable)
    # Where rates are in doubt, the middle may tell next to nothing, however often it is tried; an end tells.
    better = max(_distinct(belief, askable), key=belief.tells)
    if all(belief.tells(one) < _WORTH * belief.tells(better) for one in chosen):
        chosen[0] = better
    return sorted(chosen)


def _distinct(belief: Belief, askable: Collection[int]) -> set[int]:
    """Positions one of which is about as good as any other: those that were tried, and some between two."""
    tried = sorted({0, *belief.tallies, belief.last})
    between = {(one + other) // 2 for one, other in itertools.pairwise(tried)}
    return {*tried, *between} & set(askable) or set(askable)


def _telling(belief: Belief, number: int, askable: list[int]) -> list[int]:
    """Positions of which one more try tells most."""
    told = {one: belief.tells(one) for one in askable}
    best = sorted(askable, key=lambda one: -told[one])[:number]
    return [one for one in best if told[one] > 1e-12]  # noqa: PLR2004  # nothing, but for rounding
