"""Searches on paper: a test that fails at some rates, asked as a search asks, by one seeded draw a try."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ci.bisect.asking import Finding, Limits, ended, enough, finding, next_round
from ci.bisect.belief import FAIL, PASS, Belief, Tally


@dataclass(frozen=True, kw_only=True)
class Played:
    """How a search on paper ended."""

    finding: Finding
    rounds: int
    steps: int
    tries: int

    def right(self, broken: int) -> bool:
        return self.finding.first <= broken <= self.finding.last


def play(
    commits: int,
    broken: int,
    *,
    workers: int = 1,
    p: float = 1.0,
    q: float = 0.0,
    seed: int = 0,
    limits: Limits | None = None,
    history: bool = False,
) -> Played:
    """Search for the first bad of `commits` candidates; hands take turns, a try each."""
    limits, draw = limits or Limits(), random.Random(seed)  # noqa: S311  # no secret
    belief = Belief(last=commits)
    if history:
        belief = belief.after(0, Tally(passed=3)).after(commits, Tally(failed=3))
    tried: set[int] = set()
    rounds = steps = tries = 0
    while asked := next_round(belief, limits, workers=workers, tried=tried):
        learn, visits = not tried, {one: Tally() for one in asked}
        rounds, steps, left = rounds + 1, steps + len(visits), list(asked)
        while left:
            for one in list(left):
                learning = learn and one == commits
                if enough(belief, limits, one, visit=visits[one], learn=learning) or (
                    not learning and ended(belief, limits)
                ):
                    left.remove(one)
                    continue
                seen = FAIL if draw.random() < (p if one >= broken else q) else PASS
                visits[one] += seen
                belief, tries = belief.after(one, seen), tries + 1
        tried |= set(asked)
        assert rounds < 500
    return Played(finding=finding(belief, limits), rounds=rounds, steps=steps, tries=tries)
