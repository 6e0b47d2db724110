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

# Rates of failing and what is believed of them beforehand: most breaks are steady, few are rare. Neighbours
# are so near that a rate between two of them is no sign of another commit, however many tries there are.
BAD_RATES = {
    1.0: 0.4, 0.98: 0.04, 0.95: 0.04, 0.9: 0.05, 0.85: 0.04, 0.8: 0.04, 0.72: 0.04, 0.65: 0.04, 0.58: 0.04,
    0.5: 0.04, 0.43: 0.03, 0.37: 0.03, 0.31: 0.03, 0.26: 0.025, 0.22: 0.02, 0.18: 0.02, 0.15: 0.02,
    0.12: 0.015, 0.1: 0.015, 0.08: 0.01, 0.065: 0.01, 0.05: 0.01, 0.035: 0.005,
}  # fmt: skip
GOOD_RATES = {
    0.0: 0.6, 0.005: 0.08, 0.01: 0.05, 0.02: 0.05, 0.035: 0.03, 0.05: 0.03, 0.075: 0.02, 0.1: 0.02,
    0.13: 0.015, 0.17: 0.015, 0.21: 0.015, 0.26: 0.015, 0.31: 0.01, 0.37: 0.01, 0.43: 0.01, 0.5: 0.01,
    0.58: 0.005, 0.65: 0.005,
}  # fmt: skip
# A bad commit fails that many times as often as a good one, at least: less is no break, and not to be found.
APART = 1.5
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
            prior = sum(self._priors[begin : end + 1])
            rows.append((begin, end, prior, _explained(bad, good)))
            if number < len(tried):
                here = self.tallies[tried[number]]
                good += here
                bad = Tally(passed=bad.passed - here.passed, failed=bad.failed - here.failed)
        # What is known not to be has no part in it, however well it would explain what was seen.
        top = max(told.log for *_, prior, told in rows if prior > 0)
        made = [
            (begin, end, told, math.exp(told.log - top) if prior > 0 else 0.0, prior)
            for begin, end, prior, told in rows
        ]
        whole = sum(prior * chance for *_, chance, prior in made)
        return [
            _Stretch(begin, end, chance / whole, prior * chance / whole, told.bad_rate, told.good_rate)
            for begin, end, told, chance, prior in made
        ]

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

    @cached_property
    def _above(self) -> list[float]:
        """By hypothesis, the probability of it and all later ones."""
        return [*accumulate(reversed(self.masses))][::-1]

    def bad(self, position: int) -> float:
        """The probability that a commit is bad."""
        return min(self._below[position], 1.0)

    def good(self, position: int) -> float:
        """The probability that it is good; exact where `1 - bad` would be rounded away."""
        return self._above[position + 1]

    @cached_property
    def best(self) -> int:
        """The hypothesis believed most; the earliest of several."""
        return max(range(self.last + 2), key=lambda one: self.masses[one])

    @property
    def outside(self) -> float:
        """The probability that none between the ends broke it: it was broken before, or is not broken."""
        return self.masses[0] + self.masses[-1]

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
                before = self._below[one.begin - 1] if one.begin else 0.0
                first = min(max(self._below[position] - before, 0.0), one.weight)
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


@dataclass(frozen=True, slots=True)
class _Explained:
    """How well rates explain what was seen: the logarithm of the likelihood, and the rates' means."""

    log: float
    bad_rate: float
    good_rate: float


@lru_cache(maxsize=1)
def _rates() -> tuple[list[tuple[float, ...]], list[tuple[float, ...]]]:
    """Bad and good rates in order, each with the logarithms of its weight, of failing and of passing."""
    pairs = sum(a * b for p, a in BAD_RATES.items() for q, b in GOOD_RATES.items() if p > APART * q)
    bad, good = (
        sorted((rate, math.log(weight), _log(rate), _log(1 - rate)) for rate, weight in rates.items())
        for rates in (BAD_RATES, GOOD_RATES)
    )
    return [(p, log - math.log(pairs), *rest) for p, log, *rest in bad], list(good)


@lru_cache(maxsize=4096)
def _explained(bad: Tally, good: Tally) -> _Explained:
    """What was seen of bad and of good commits, over all pairs of rates that are far enough apart.

    A bad rate goes with all good ones up to some, so sums that grow along with it do for every pair.
    """
    bad_rates, good_rates = _rates()
    lower, good_mean, taken = -math.inf, 0.0, 0
    rows = list[tuple[float, float, float]]()
    for p, weight, fails, passes in bad_rates:
        while taken < len(good_rates) and p > APART * good_rates[taken][0]:
            q, log, q_fails, q_passes = good_rates[taken]
            log += good.failed * q_fails + good.passed * q_passes
            before, lower = lower, _added(lower, log)
            good_mean += (q - good_mean) * math.exp(log - lower) if before > -math.inf else q
            taken += 1
        rows.append((lower + weight + bad.failed * fails + bad.passed * passes, p, good_mean))
    top = max(log for log, _, _ in rows)
    chances = [math.exp(log - top) for log, _, _ in rows]
    whole = sum(chances)
    return _Explained(
        top + math.log(whole),
        sum(chance * p for chance, (_, p, _) in zip(chances, rows, strict=True)) / whole,
        sum(chance * q for chance, (_, _, q) in zip(chances, rows, strict=True)) / whole,
    )


def _added(one: float, other: float) -> float:
    """The logarithm of a sum, of its parts' logarithms."""
    top = max(one, other)
    return top + math.log(math.exp(one - top) + math.exp(other - top))


def _log(chance: float) -> float:
    return math.log(chance) if chance > 0 else _NEVER


def _entropy(chance: float) -> float:
    if not 0 < chance < 1:
        return 0.0
    return -chance * math.log2(chance) - (1 - chance) * math.log2(1 - chance)
