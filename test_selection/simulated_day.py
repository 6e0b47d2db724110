"""What a plan does not know, drawn for one day, and the bound of who knew all of it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple, Protocol

from test_selection.bound import ROUNDING, least
from test_selection.estimates import UNKNOWN_TEST_S
from test_selection.plan import Plan

HOUR_S = 3600.0


class Randomness(Protocol):
    """What is used of a `random.Random`, which the caller makes from a seed."""

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        """A normal draw."""

    def expovariate(self, lambd: float) -> float:
        """An exponential draw of mean 1 / lambd."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncertainty:
    """How far off things may be.

    Attributes:
        sigma_file: a file's tests take exp(N(0, sigma)) times what was expected, all of them the same.
        sigma_speed: a card works exp(N(0, sigma)) times as fast.
        startup_s: mean seconds until a card's worker has started (exponential).
        faults_h: faults of a card in an hour (exponential), each of which is its end.
    """

    sigma_file: float = 0.0
    sigma_speed: float = 0.0
    startup_s: float = 0.0
    faults_h: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """One day.

    Attributes:
        test_s: true seconds of each test, on a card of speed 1, by test id.
        setup_s: set-up seconds of each file, on a card of speed 1.
        speeds: of each card.
        starts_at: when each card's worker has started, in seconds.
        dies_at: when each card dies; infinite for most.
    """

    test_s: Mapping[str, float]
    setup_s: Mapping[str, float]
    speeds: tuple[float, ...]
    starts_at: tuple[float, ...]
    dies_at: tuple[float, ...]

    def of_cards(self, first: int, count: int) -> Truth:
        """The day of some of the cards, of a host or pod."""
        rows = slice(first, first + count)
        return replace(
            self, speeds=self.speeds[rows], starts_at=self.starts_at[rows], dies_at=self.dies_at[rows]
        )


def draw_truth(
    file_of: Mapping[str, str],
    cards: int,
    *,
    test_s: Mapping[str, float],
    file_s: Mapping[str, float],
    off: Uncertainty,
    randomness: Randomness,
) -> Truth:
    """Draw one day.

    Args:
        file_of: the file of each test, by test id.
        cards: how many there are.
        test_s: seconds expected of each test.
        file_s: set-up seconds expected of each file.
        off: how far off things may be.
        randomness: of the draws.
    """
    files = sorted(set(file_of.values()))
    factors = {file: _factor(off.sigma_file, randomness) for file in files}
    return Truth(
        test_s={
            name: test_s.get(name, UNKNOWN_TEST_S) * factors[file] for name, file in sorted(file_of.items())
        },
        setup_s={file: file_s.get(file, 0.0) for file in files},
        speeds=tuple(_factor(off.sigma_speed, randomness) for _ in range(cards)),
        starts_at=tuple(after(off.startup_s, randomness) for _ in range(cards)),
        dies_at=tuple(dies_after(off.faults_h, randomness) for _ in range(cards)),
    )


def after(mean_s: float, randomness: Randomness) -> float:
    """An exponential draw of so many seconds on average; 0 where they are 0."""
    return randomness.expovariate(1 / mean_s) if mean_s else 0.0


def dies_after(faults_h: float, randomness: Randomness) -> float:
    """Seconds until a card of so many faults an hour dies; infinite where it has none."""
    return randomness.expovariate(faults_h / HOUR_S) if faults_h else math.inf


def _factor(sigma: float, randomness: Randomness) -> float:
    return math.exp(randomness.gauss(0.0, sigma)) if sigma else 1.0


# What a weighing charges for seconds beyond a share of the makespan. Dearer and lower, or cheaper and
# higher, prove nothing more: where they lie is a matter of how far cards differ and how large set-ups are.
FROM_SHARES = (0.95, 0.9, 0.8, 1.0)
SURCHARGES = (0.3, 0.5, 0.2, 0.8)
# The makespan is searched so far above the plain bound, halving so often.
FARTHEST = 1.1
HALVINGS = 9


class _File(NamedTuple):
    setup_s: float
    total_s: float
    longest_s: float


def true_bound(plan: Plan, truth: Truth) -> float:
    """Seconds below which no split of these tests over these cards could have ended, knowing all of it.

    As `bound.lower_bound`, with cards of their own speed, start and end: a file whose tests take D seconds
    and whose set-up takes s needs at least the k fastest cards that together do D + k s until T. There each
    file may have the fastest cards; that all files cannot have them is what `_weighed_bound` adds. Infinite
    where the living cards never could.
    """
    files = _files(plan, truth)
    if not files:
        return 0.0
    plain = _plain_bound(files, truth)
    return plain if math.isinf(plain) else _weighed_bound(files, truth, plain)


def _plain_bound(files: Sequence[_File], truth: Truth) -> float:

    def fits(limit: float) -> bool:
        rooms = _rooms(truth, limit)
        return _work(files, rooms) <= math.fsum(rooms) * (1 + ROUNDING)

    fastest = max(truth.speeds)
    start = max(
        max(one.setup_s + one.longest_s for one in files) / fastest,
        math.fsum(one.setup_s + one.total_s for one in files) / math.fsum(truth.speeds),
    )
    if math.isinf(min(truth.dies_at, default=0.0)) or math.isinf(max(truth.dies_at)):
        return least(fits, start)
    return least(fits, start) if fits(max(truth.dies_at) + 1) else math.inf


def _files(plan: Plan, truth: Truth) -> list[_File]:
    """Set-up, seconds of all tests and longest test of each file."""
    by_file: dict[str, list[str]] = {}
    for shard in plan.shards:
        for group in shard.groups:
            by_file.setdefault(group.file, []).extend(group.ids)
    return [
        _File(
            truth.setup_s[file],
            math.fsum(truth.test_s[name] for name in names),
            max((truth.test_s[name] for name in names), default=0.0),
        )
        for file, names in sorted(by_file.items())
    ]


def _rooms(truth: Truth, limit: float) -> list[float]:
    """Seconds of work each card can do until `limit`, most first."""
    cards = zip(truth.speeds, truth.starts_at, truth.dies_at, strict=True)
    return sorted(
        (speed * max(0.0, min(limit, dies) - starts) for speed, starts, dies in cards), reverse=True
    )


def _work(files: Sequence[_File], rooms: Sequence[float]) -> float:
    sums = list(accumulate(rooms))
    work, count, cheapest = 0.0, 0, min(setup for setup, *_ in files)
    for setup, total, _ in files:
        # Past the cards whose room is below the set-up, more of them do not help.
        useful = bisect_left(rooms, -setup, key=lambda room: -room)
        pieces = 1
        if total > 0:
            pieces += _first_enough(sums, useful, setup, total * (1 - ROUNDING))
            if pieces > useful:
                return math.inf
        work += total + setup * pieces
        count += pieces
    # Every card that is used sets up something, and one whose room is below the cheapest set-up is not used.
    used = bisect_left(rooms, -cheapest, key=lambda room: -room)
    return work + cheapest * max(0, used - count) + math.fsum(rooms[used:])


def _first_enough(sums: Sequence[float], useful: int, setup: float, total: float) -> int:
    """How few of the fastest cards are not enough for a file."""
    return bisect_left(range(useful), total, key=lambda k: sums[k] - setup * (k + 1))


def _weighed_bound(files: Sequence[_File], truth: Truth, plain: float) -> float:
    low, high = plain, plain * FARTHEST
    weighings = [(share, surcharge) for share in FROM_SHARES for surcharge in SURCHARGES]
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        rooms = _rooms(truth, middle)
        proof = next((one for one in weighings if _proves(files, rooms, one[0] * middle, one[1])), None)
        if proof is None:
            high = middle
        else:
            low = middle
            # What proved one limit proves the next as a rule.
            weighings.remove(proof)
            weighings.insert(0, proof)
    return low


def _proves(files: Sequence[_File], rooms: Sequence[float], from_s: float, surcharge: float) -> bool:
    """Whether the pieces weigh more than the cards hold, however the files are cut.

    A piece that keeps a card busy for x seconds weighs f(x) = x + surcharge max(0, x - from_s). f is convex
    and 0 at 0, so f(x) + f(y) <= f(x + y): what fits on a card of room r weighs f(r) at most.
    """
    holds = math.fsum(weigh(room, from_s, surcharge) for room in rooms)
    return _least_weight(files, rooms[0], from_s, surcharge) > holds * (1 + ROUNDING)


def weigh(seconds: float, from_s: float, surcharge: float) -> float:
    """Seconds, and those beyond `from_s` once more by the surcharge."""
    return seconds + surcharge * max(0.0, seconds - from_s)


def _least_weight(files: Sequence[_File], most: float, from_s: float, surcharge: float) -> float:
    """What the files weigh at least, no piece being longer than `most` seconds.

    k pieces of D seconds and a set-up s each weigh least when they are equal, k f(D / k + s). As f has one
    kink this has one in k, at k = D / (from_s - s), and is linear on both sides: it is least next to the
    kink, or in as few pieces as there can be.
    """
    weight = 0.0
    for setup, total, _ in files:
        if total <= 0:
            weight += weigh(setup, from_s, surcharge)
            continue
        room = most - setup
        if room <= 0:
            return math.inf
        fewest = max(1, math.ceil(total / room - ROUNDING))
        counts = {fewest}
        if from_s > setup:
            kink = total / (from_s - setup)
            counts |= {max(fewest, math.floor(kink)), max(fewest, math.ceil(kink))}
        weight += min(count * weigh(total / count + setup, from_s, surcharge) for count in counts)
    return weight
