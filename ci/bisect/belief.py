"""What tries of a test say of the commit that broke it: Bayes' rule over first bad commits; pure.

Commits have positions 0 to n in their order: 0 is the good end, n the bad end. A hypothesis h says that the
commits h to n are bad: h = 1 … n is "this one broke it", h = 0 "it was broken before the good end",
h = n + 1 "it is not broken at all". A bad commit fails a try with the rate p, a good one with the rate
q < p; neither is known, so both are summed out over a grid. Tries are taken to be independent.
For such searches see Pelc, "Searching games with errors: fifty years of coping with liars", Theoretical
Computer Science 270 (2002).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import accumulate

# Rates of failing and what is believed of them beforehand: most breaks are steady, few are rare.
BAD_RATES = {
    1.0: 0.4, 0.97: 0.06, 0.9: 0.08, 0.8: 0.08, 0.65: 0.08, 0.5: 0.08, 0.35: 0.06, 0.25: 0.05, 0.15: 0.04,
    0.1: 0.03, 0.07: 0.02, 0.05: 0.02,
}  # fmt: skip
GOOD_RATES = {0.0: 0.7, 0.005: 0.1, 0.02: 0.1, 0.05: 0.06, 0.1: 0.04}
# That both ends are what they are said to be is doubted this far before anything was tried.
END_DOUBT = 0.02
_NEVER = -1e18


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How often a commit's test passed and failed."""

    passed: int = 0
    failed: int = 0

    @property
    def tries(self) -> int:
        """Both."""
        return self.passed + self.failed

    def __add__(self, other: Tally) -> Tally:
        return Tally(passed=self.passed + other.passed, failed=self.failed + other.failed)


PASS, FAIL = Tally(passed=1), Tally(failed=1)


@dataclass(frozen=True, kw_only=True)
class Belief:
    """What is believed after some tries.

    Attributes:
        last: the position n of the bad end; 1 at least.
        tallies: by position, what was seen there.
        known_good: the last position that is good beyond doubt; -1: none is.
    """

    last: int
    known_good: int = -1
    tallies: Mapping[int, Tally] = field(default_factory=dict)

    @cached_property
    def _stretches(self) -> list[_Stretch]:
        """Hypotheses that no try tells apart yet, in order; weights add up to 1 over all."""
        tried = sorted(position for position, one in self.tallies.items() if one.tries)
        begins, ends = [0, *(one + 1 for one in tried)], [*tried, self.last + 1]
        good, bad = Tally(), sum((self.tallies[one] for one in tried), Tally())
        rows = []
        for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            logs = _logs(bad, good)
            prior = sum(self._priors[begin : end + 1])
            rows.append((begin, end, prior, logs))
            if number < len(tried):
                here = self.tallies[tried[number]]
                good += here
                bad = Tally(passed=bad.passed - here.passed, failed=bad.failed - here.failed)
        top = max(max(logs) for *_, logs in rows)
        made = [
            (begin, end, prior, [math.exp(one - top) for one in logs]) for begin, end, prior, logs in rows
        ]
        whole = sum(prior * sum(weights) for _, _, prior, weights in made)
        return [_stretch(begin, end, prior, weights, whole) for begin, end, prior, weights in made]

    @cached_property
    def masses(self) -> list[float]:
        """The probability of each hypothesis 0 … n + 1."""
        return [
            self._priors[one] * stretch.each
            for stretch in self._stretches
            for one in range(stretch.begin, stretch.end + 1)
        ]

    @cached_property
    def _below(self) -> list[float]:
        return list(accumulate(self.masses))

    def bad(self, position: int) -> float:
        """The probability that a commit is bad."""
        return min(self._below[position], 1.0)

    def good(self, position: int) -> float:
        """The probability that it is good; exact where `1 - bad` would be rounded away."""
        return sum(self.masses[position + 1 :])

    @cached_property
    def best(self) -> int:
        """The hypothesis believed most; the earliest of several."""
        return max(range(self.last + 2), key=lambda one: self.masses[one])

    @cached_property
    def bad_rate(self) -> float:
        """The rate at which bad commits fail, as far as is known."""
        return sum(one.weight * one.bad_rate for one in self._stretches)

    @cached_property
    def good_rate(self) -> float:
        """The rate at which good commits fail, as far as is known."""
        return sum(one.weight * one.good_rate for one in self._stretches)

    def tells(self, position: int) -> float:
        """How much of the hypothesis one more try of a commit tells, in bits (mutual information)."""
        chances = [
            (one.weight, one.bad_rate if one.end <= position else one.good_rate)
            for one in self._cut(position)
        ]
        mean = sum(weight * chance for weight, chance in chances)
        return max(_entropy(mean) - sum(weight * _entropy(chance) for weight, chance in chances), 0.0)

    def after(self, position: int, seen: Tally) -> Belief:
        """With what was seen at a commit besides."""
        known = self.tallies.get(position, Tally())
        return replace(self, tallies={**self.tallies, position: known + seen})

    @cached_property
    def _priors(self) -> list[float]:
        """What is believed of each hypothesis beforehand; nothing of what is known not to be."""
        priors = [END_DOUBT, *[(1 - 2 * END_DOUBT) / self.last] * self.last, END_DOUBT]
        return [0.0 if one <= self.known_good else prior for one, prior in enumerate(priors)]

    def _cut(self, position: int) -> Iterator[_Stretch]:
        """The stretches, one of them cut behind a position."""
        for one in self._stretches:
            if one.begin <= position < one.end:
                first = sum(self.masses[one.begin : position + 1])
                yield _Stretch(one.begin, position, one.each, first, one.bad_rate, one.good_rate)
                yield _Stretch(
                    position + 1, one.end, one.each, one.weight - first, one.bad_rate, one.good_rate
                )
            else:
                yield one


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Hypotheses from `begin` to `end`, both in it, with the same likelihood.

    `each` times its prior is the probability of one; `weight` of all; the rates are means within it.
    """

    begin: int
    end: int
    each: float
    weight: float
    bad_rate: float
    good_rate: float


def _stretch(begin: int, end: int, prior: float, weights: list[float], whole: float) -> _Stretch:
    total = sum(weights)
    mean = total or 1.0
    return _Stretch(
        begin,
        end,
        total / whole,
        prior * total / whole,
        sum(weight * p for weight, (p, _, _) in zip(weights, _grid(), strict=True)) / mean,
        sum(weight * q for weight, (_, q, _) in zip(weights, _grid(), strict=True)) / mean,
    )


@lru_cache(maxsize=1)
def _grid() -> tuple[tuple[float, float, float], ...]:
    """Pairs of rates with the logarithm of what is believed of them beforehand."""
    pairs = [(p, q, a * b) for p, a in BAD_RATES.items() for q, b in GOOD_RATES.items() if p > 1.5 * q]
    whole = sum(weight for *_, weight in pairs)
    return tuple((p, q, math.log(weight / whole)) for p, q, weight in pairs)


@lru_cache(maxsize=1)
def _log_grid() -> tuple[tuple[float, float, float, float, float], ...]:
    """The logarithms of each pair: weight, bad fails, bad passes, good fails, good passes."""
    return tuple((log, _log(p), _log(1 - p), _log(q), _log(1 - q)) for p, q, log in _grid())


def _logs(bad: Tally, good: Tally) -> list[float]:
    """The logarithm of what was seen with each pair of rates, and of the pair's own weight."""
    a, b, c, d = bad.failed, bad.passed, good.failed, good.passed
    return [log + a * lp + b * lp1 + c * lq + d * lq1 for log, lp, lp1, lq, lq1 in _log_grid()]


def _log(chance: float) -> float:
    return math.log(chance) if chance > 0 else _NEVER


def _entropy(chance: float) -> float:
    if not 0 < chance < 1:
        return 0.0
    return -chance * math.log2(chance) - (1 - chance) * math.log2(1 - chance)
