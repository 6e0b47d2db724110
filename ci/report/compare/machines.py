"""Separate the machines' share of a run's times from noise. Pure.

Two runs rarely have equal machines: another host, another card, more neighbours. What all tests have in
common is told by itself and taken out before single tests are looked at: over tests of about the same length,
and over cards that ran several files. A card that ran one file alone cannot be told from that file.

Logarithms of ratios are looked at, so that twice as long and half as long are equally far off. Times of tests
have tails that no normal distribution has; a tail that falls exponentially in the logarithm, as one that
falls by a power in the ratio does, is fitted to the noise of the very comparison, and followed to where the
expected number of values beyond it is what was agreed for all of them together.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

# Values that are expected beyond a limit though nothing changed, over a whole comparison.
FALSE_ALARMS = 0.1
# With fewer values nobody knows what is usual.
LEAST = 10
# Of a side of so many values the tail itself can be looked at.
_LEAST_OF_A_SIDE = 40
_DEEPEST = 10
# Of a normal distribution, the standard deviation in median absolute deviations.
_MAD = 1.4826
# Seconds that are added to both times: below it a clock and a scheduler say more than a test.
FLOOR_S = 0.1
# Lengths of tests that are looked at apart, in seconds: what slows long ones down need not slow short ones.
LENGTHS = (0.0, 0.1, 1.0, 10.0, math.inf)
_SQUARES = tuple(one * one for one in LENGTHS)
_LEAST_OF_A_LENGTH = 30
_LEAST_TESTS, _LEAST_FILES = 20, 3
# No clock says less of a test.
LEAST_TIMED_S = 0.0005
# A test of less, in either run, says nothing of a machine.
TELLING_S = 0.02


def median(values: Iterable[float]) -> float:
    """The median; 0 of nothing."""
    found = list(values)
    return statistics.median(found) if found else 0.0


def spread_of(values: Iterable[float], *, least: float = 0.0) -> float:
    """The standard deviation that values around 0 would have as their median distance says.

    Args:
        values: around 0.
        least: it is not taken to be less than this.
    """
    return max(least, _MAD * median(abs(one) for one in values))


def limit_of(values: Sequence[float], *, alarms: float = FALSE_ALARMS) -> float:
    """How far from 0 a value is that noise does not explain; infinite where there are too few to know.

    Both sides are noise alike as long as nothing changed, and where something did, mostly one of them: so the
    side that is nearer says what is usual.

    Args:
        values: around 0.
        alarms: how many of them, on both sides together, may be expected beyond the limit by noise alone.
    """
    if len(values) < LEAST:
        return math.inf
    sides = [sorted((sign * one for one in values if sign * one > 0), reverse=True) for sign in (1, -1)]
    if min(map(len, sides)) < _LEAST_OF_A_SIDE:
        return _by_median(values, alarms)
    return min(_tail(side, alarms / 2) for side in sides)


def _by_median(values: Sequence[float], alarms: float) -> float:
    """The same for a few, of which only the middle is known: its distance says how fast the tail falls."""
    number = len(values)
    scale = median(abs(one) for one in values) / math.log(2)
    # A middle that few values say is uncertain itself.
    return scale * (1 + 2 / math.sqrt(number)) * math.log(number / alarms)


def _tail(side: Sequence[float], alarms: float) -> float:
    """Of one side, the furthest first: a line through two of its ranks, as far as fewer than agreed are left.

    Where the tail falls more slowly further out, as where a machine stalls now and then, a deeper pair of
    ranks says so; the furthest of all counts.
    """
    limits = []
    rank = _DEEPEST
    # Further in, a normal distribution falls more slowly than out there, which is nothing of its tail.
    while rank == _DEEPEST or 40 * rank <= len(side):
        inner = min(10 * rank, len(side))
        scale = (side[rank - 1] - side[inner - 1]) / math.log(inner / rank)
        # Two standard errors of a scale that so many values say.
        scale *= 1 + 2 / math.sqrt(inner - rank)
        limits.append(side[rank - 1] + scale * math.log(rank / alarms))
        rank *= 4
    return max(limits)


class Pair(NamedTuple):
    """Seconds of something that went well in both runs.

    Attributes:
        name: of a test its id here, of a set-up its file.
        file: it is of.
        now_s: here.
        base_s: there.
        now_card: where it ran; empty where nobody says.
        base_card: there.
    """

    name: str
    file: str
    now_s: float
    base_s: float
    now_card: str = ""
    base_card: str = ""

    @property
    def length(self) -> int:
        """Which of `LENGTHS` it has, from 0, both runs alike."""
        return bisect_right(_SQUARES, self.now_s * self.base_s) - 1


class Length(NamedTuple):
    """Tests of about the same length: `least_s` to below `below_s` seconds, and their median ratio."""

    least_s: float
    below_s: float
    tests: int
    ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """What all tests have in common.

    Attributes:
        ratio: seconds here for each second there, the median over the tests.
        tests: how many said so.
        lengths: the same by length of the tests, those that had enough.
        cards_now: by card, how many times as slow as the others it was here.
        cards_base: the same there.
    """

    ratio: float = 1.0
    tests: int = 0
    lengths: tuple[Length, ...] = ()
    cards_now: Mapping[str, float] = field(default_factory=dict)
    cards_base: Mapping[str, float] = field(default_factory=dict)

    def expected_s(self, pairs: Iterable[Pair]) -> list[float]:
        """What tests would take here if only the machines had changed."""
        known = {one.least_s: one.ratio for one in self.lengths}
        ratios = [known.get(least, self.ratio) for least in LENGTHS]
        now, base = self.cards_now, self.cards_base
        if not now and not base:
            return [pair.base_s * ratios[pair.length] for pair in pairs]
        return [
            pair.base_s * ratios[pair.length] * (now.get(pair.now_card, 1.0) / base.get(pair.base_card, 1.0))
            for pair in pairs
        ]


def machines_of(pairs: Sequence[Pair]) -> Machines:
    """What the tests of two runs have in common."""
    telling = [one for one in pairs if one.now_s >= TELLING_S and one.base_s >= TELLING_S]
    if not telling:
        return Machines()
    logs = [math.log(one.now_s / one.base_s) for one in telling]
    plain = Machines(ratio=math.exp(median(logs)), tests=len(telling), lengths=_lengths(telling, logs))
    now, base = _cards(telling, plain)
    return replace(plain, cards_now=now, cards_base=base)


def off(now_s: float, expected_s: float) -> float:
    """How far off what was expected a time is: as a logarithm, near 0 for what is very short."""
    return math.log((now_s + FLOOR_S) / (expected_s + FLOOR_S))


def _lengths(pairs: Iterable[Pair], ratios: Iterable[float]) -> tuple[Length, ...]:
    found: list[list[float]] = [[] for _ in LENGTHS[1:]]
    for one, log in zip(pairs, ratios, strict=True):
        found[one.length].append(log)
    return tuple(
        Length(least, below, len(logs), math.exp(median(logs)))
        for least, below, logs in zip(LENGTHS, LENGTHS[1:], found, strict=False)
        if len(logs) >= _LEAST_OF_A_LENGTH
    )


def _cards(pairs: Sequence[Pair], plain: Machines) -> tuple[dict[str, float], dict[str, float]]:
    """By card, its share here and there; one after the other, so that neither is counted twice."""
    if not any(one.now_card or one.base_card for one in pairs):
        return {}, {}
    expected = plain.expected_s(pairs)
    logs = [math.log(one.now_s / wanted) for one, wanted in zip(pairs, expected, strict=True)]
    now = _shares([one.now_card for one in pairs], pairs, logs)
    left = [log - now.get(one.now_card, 0.0) for one, log in zip(pairs, logs, strict=True)]
    base = _shares([one.base_card for one in pairs], pairs, left)
    return (
        {card: math.exp(share) for card, share in now.items()},
        {card: math.exp(-share) for card, share in base.items()},
    )


def _shares(cards: Sequence[str], pairs: Sequence[Pair], logs: Sequence[float]) -> dict[str, float]:
    """By card, the median over the medians of its files: no file with many tests speaks for the card."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for card, pair, log in zip(cards, pairs, logs, strict=True):
        if card:
            found[card][pair.file].append(log)
    if len(found) < 2:  # noqa: PLR2004  # one card is what all have in common
        return {}
    return {
        card: median(map(median, files.values()))
        for card, files in sorted(found.items())
        if len(files) >= _LEAST_FILES and sum(map(len, files.values())) >= _LEAST_TESTS
    }
