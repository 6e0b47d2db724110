"""The probability of each commit to be the one that broke a test, and what to try next. Pure.

Commits have positions 0 to n: 0 is the good end, n the bad end. Hypothesis h says that the commits h to n are
bad: h = 1 … n is "commit h broke it", h = 0 "it was broken before the good end", and h = n + 1 "it is not
broken at the bad end". A bad commit fails a try with rate p and a good one with a lower rate q. Neither is
known, so Bayes' rule sums over a grid of both. Tries count as independent.
See Pelc, "Searching games with errors", Theoretical Computer Science 270 (2002).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from ci.config.bisect_model import Bisect

# Failing rates and their prior weights: most regressions fail each time. Neighbours are close enough that a
# rate between two of them does not look like another commit.
BAD_RATES = {1.0: 0.4, **{0.98 * 0.87**step: 0.08 * 0.87**step for step in range(24)}}
GOOD_RATES = {0.0: 0.6, **{0.005 * 1.29**step: 0.08 * 0.87**step for step in range(20)}}
# A bad commit fails at least this many times as often as a good one; a smaller change is not searched for.
APART = 1.5
# Prior probability that an end is not what it is said to be.
END_DOUBT = 0.02
# The confidence has to hold at every failing rate and not only on average: a third of the doubt is allowed.
_MARGIN = 3
# The part of that doubt that one commit may have.
_SHARE = 8
# From this probability on, another try of an end or a neighbour tells more than halving what is left.
_LEADS = 0.5
# Tries of the bad end before anything else, since its failing rate weighs all later answers.
FIRST_TRIES = 4
# The most tries that a commit gets before it is looked at again, when it comes up again.
_AGAIN = 16
_NEVER = -1e18
Kind = Literal["found", "range", "never", "before"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How often the test passed and failed at a commit."""

    passed: int = 0
    failed: int = 0

    @property
    def tries(self) -> int:
        """Both together."""
        return self.passed + self.failed

    def __add__(self, other: Tally) -> Tally:
        return Tally(passed=self.passed + other.passed, failed=self.failed + other.failed)


@dataclass(frozen=True, kw_only=True)
class Belief:
    """The probabilities after some tries.

    Attributes:
        last: the position of the bad end.
        tallies: the tries by position.
        limits: how far the search goes.
        skipped: positions that cannot be tried.
    """

    last: int
    tallies: Mapping[int, Tally]
    limits: Bisect
    skipped: Collection[int] = ()

    @property
    def target(self) -> float:
        """The probability at which the search ends."""
        return 1 - (1 - self.limits.confidence) / _MARGIN

    @cached_property
    def _stretches(self) -> list[tuple[int, int, float, float, float]]:
        """Hypotheses that no try tells apart: first, last, log-likelihood, rates of bad and good commits."""
        cuts = sorted({0, self.last, *self.tallies})
        rows = []
        for begin, end in zip([0, *(cut + 1 for cut in cuts)], [*cuts, self.last + 1], strict=True):
            bad = sum((one for at, one in self.tallies.items() if at >= end), Tally())
            good = sum((one for at, one in self.tallies.items() if at < end), Tally())
            rows.append((begin, end, *_explain(bad, good)))
        return rows

    @cached_property
    def masses(self) -> list[float]:
        """The probability of each hypothesis, 0 to n + 1."""
        top = max(log for _, _, log, _, _ in self._stretches)
        inner = (1 - 2 * END_DOUBT) / self.last
        weights = [
            (inner if 0 < h <= self.last else END_DOUBT) * math.exp(log - top)
            for begin, end, log, _, _ in self._stretches
            for h in range(begin, end + 1)
        ]
        whole = sum(weights)
        return [one / whole for one in weights]

    @cached_property
    def _below(self) -> list[float]:
        return list(itertools.accumulate(self.masses))

    def bad(self, position: int) -> float:
        """The probability that a commit is bad."""
        return min(self._below[position], 1.0)

    def settled(self, position: int) -> bool:
        """True if it is known whether a commit is bad, as far as the confidence asks."""
        return min(self.bad(position), 1 - self.bad(position)) <= (1 - self.target) / _SHARE

    @property
    def tries(self) -> int:
        """Tries of all commits."""
        return sum(one.tries for one in self.tallies.values())

    @property
    def outside(self) -> float:
        """The probability that no commit between the ends broke the test."""
        return self.masses[0] + self.masses[-1]

    @cached_property
    def ended(self) -> bool:
        """True if the target is reached, or all tries are used."""
        # A test that fails as often at both ends never tells "broken before" from "not broken".
        if self.tries >= self.limits.tries_in_all or self.outside >= self.target:
            return True
        together = 0.0  # a commit that cannot be tried is not told from the one behind it
        for position, mass in enumerate(self.masses):
            together = mass + (together if position - 1 in self.skipped else 0.0)
            if together >= self.target:
                return True
        return False

    def gain(self, position: int) -> float:
        """The information that one more try of a commit gives, in bits (mutual information)."""
        chances = []
        for begin, end, _, bad, good in self._stretches:
            cut = min(max(position + 1, begin), end + 1)  # by the hypotheses before the cut it is bad
            chances += [(sum(self.masses[begin:cut]), bad), (sum(self.masses[cut : end + 1]), good)]
        mean = sum(weight * chance for weight, chance in chances)
        return _entropy(mean) - sum(weight * _entropy(chance) for weight, chance in chances)

    def next_round(self, workers: int) -> list[int]:
        """The positions to try side by side; empty where the search has ended."""
        seen = self.tallies.get(self.last, Tally()).tries
        if seen < FIRST_TRIES and self.tries < self.limits.tries_in_all:
            return [self.last, *self._cuts(workers - 1)]
        if self.ended:
            return []
        chosen = [] if max(self.masses) >= _LEADS else self._cuts(workers)
        if not chosen:
            tried = sorted({0, *self.tallies, self.last})
            between = {(one + other) // 2 for one, other in itertools.pairwise(tried)}
            best = sorted({*tried, *between}.difference(self.skipped), key=self.gain, reverse=True)
            chosen = [one for one in best[:workers] if self.gain(one) > 1e-12]  # noqa: PLR2004  # rounding
        return chosen

    def _cuts(self, number: int) -> list[int]:
        """Positions that cut the range into parts of the same probability."""
        left = [at for at in range(1, self.last) if at not in self.skipped and not self.settled(at)]
        chosen = list[int]()
        for part in range(1, number + 1):
            aim = self.masses[0] + (1 - self.outside) * part / (number + 1)
            chosen += sorted(left, key=lambda one: abs(self._below[one] - aim))[:1]
            left = [one for one in left if one not in chosen]
        return chosen

    def enough(self, position: int, visited: int) -> bool:
        """True if a commit needs no more tries in this round, after `visited` ones."""
        if visited >= self.limits.tries or self.tries >= self.limits.tries_in_all:
            return True
        # A commit that comes up again gets as many tries as before, since one more would tell nothing.
        before = self.tallies.get(position, Tally()).tries - visited
        least = max(min(before, _AGAIN), FIRST_TRIES if position == self.last else 1)
        return visited >= least and (self.settled(position) or self.ended)

    def finding(self) -> tuple[Kind, int, int, float]:
        """What is known so far: the kind, the first and the last candidate, and the probability of that."""
        masses, last = self.masses, self.last
        best = max(range(last + 2), key=lambda one: masses[one])
        if best in (0, last + 1) or self.outside > _LEADS:
            return "before" if masses[0] >= masses[-1] else "never", best, best, min(self.outside, 1.0)
        begin = end = best
        while (whole := sum(masses[begin : end + 1])) < self.limits.confidence and (begin > 1 or end < last):
            if end == last or (begin > 1 and masses[begin - 1] >= masses[end + 1]):
                begin -= 1
            else:
                end += 1
        return "found" if begin == end else "range", begin, end, min(whole, 1.0)


@lru_cache(maxsize=1)
def _pairs() -> list[tuple[float, ...]]:
    """Pairs of rates, with the logarithms of the weight, of failing and of passing."""
    pairs = [(p, q, a * b) for p, a in BAD_RATES.items() for q, b in GOOD_RATES.items() if p > APART * q]
    return [(p, q, math.log(w), _log(p), _log(1 - p), _log(q), _log(1 - q)) for p, q, w in pairs]


@lru_cache(maxsize=4096)
def _explain(bad: Tally, good: Tally) -> tuple[float, float, float]:
    """The logarithm of the likelihood of tries at bad and good commits, and the mean rates of both."""
    logs = [
        weight + bad.failed * p_fails + bad.passed * p_passes + good.failed * q_fails + good.passed * q_passes
        for _, _, weight, p_fails, p_passes, q_fails, q_passes in _pairs()
    ]
    top = max(logs)
    chances = [math.exp(one - top) for one in logs]
    whole = sum(chances)
    p, q = (sum(c * pair[at] for c, pair in zip(chances, _pairs(), strict=True)) / whole for at in (0, 1))
    return top + math.log(whole), p, q


def _log(chance: float) -> float:
    return math.log(chance) if chance > 0 else _NEVER


def _entropy(chance: float) -> float:
    return -sum(one * math.log2(one) for one in (chance, 1 - chance) if one > 0)
