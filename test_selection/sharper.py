"""Sharper lower bounds, for inputs on which even the best split stays above the plain one.

Each takes a limit T and proves that no split over m equal shards ends within it, by weighing pieces: where
the pieces any shard can hold within T never weigh more than 1 together, and the files' pieces weigh more
than m however they are cut, T is out of reach (dual feasible functions; Fekete and Schepers, Mathematical
Programming 91, 2001, for bin packing without set-ups).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from test_selection.bound import ROUNDING
from test_selection.counting import counts_too_many, groups_too_many
from test_selection.groups import grouped_bound
from test_selection.loads import FileLoad
from test_selection.whole_tests import WholeTests, fitting

# The gap between what is proved and what is reached is halved so often.
HALVINGS, UNIT_HALVINGS = 12, 6
# A makespan this near to its bound is left as it is.
NEAR = 1.005
# So many different set-ups are tried as thresholds, and so many pieces on a shard are told apart.
MAX_THRESHOLDS = 8
MAX_PIECES = 24
# Seconds are looked at for a common step down to a ten thousandth, where there are few different ones.
TICKS = 10_000
MAX_VALUES = 64
# What a part of a file is charged for the file being cut, in parts of the file.
TOLLS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)


def sharper_bound(
    loads: Sequence[FileLoad],
    shards: int,
    low: float,
    high: float,
    *,
    near: float = NEAR,
    finely: bool = True,
) -> float:
    """The best bound found from `low`, a bound, up to `high`, a makespan that was reached.

    Where the two stay apart by more than the factor `near`, looking `finely` may take a second.
    """
    low = max(low, min(counted_bound(loads, shards, high), high))
    reached = high
    top = high * (1 - ROUNDING)
    if top > low and is_out_of_reach(loads, shards, top):
        return high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if is_out_of_reach(loads, shards, middle):
            low = middle
        else:
            high = middle
    if reached > low * near:
        low = _raised(low, reached, WholeTests(loads, shards).too_many)
        low = _raised(low, reached, lambda limit: groups_too_many(loads, shards, limit), UNIT_HALVINGS)
    if reached > low * near:
        low = grouped_bound(loads, shards, low, reached, finely=finely)
    return min(on_grid(loads, low), reached)


def _raised(low: float, high: float, is_too_low: Callable[[float], bool], halvings: int = HALVINGS) -> float:
    if high > low and is_too_low(high * (1 - ROUNDING)):
        return high
    for _ in range(halvings):
        middle = (low + high) / 2
        if is_too_low(middle):
            low = middle
        else:
            high = middle
    return low


def is_out_of_reach(loads: Sequence[FileLoad], shards: int, limit: float) -> bool:
    """Whether one of the weighings proves that no split ends within `limit` seconds."""
    least = shards * (1 + ROUNDING)
    if limit <= 0:
        return False
    if any(load.total_s > 0 and load.setup_s >= limit for load in loads):
        return True
    if counts_too_many(loads, shards, limit):
        return True
    rests = [_cut(load, limit) for load in loads]
    setups = sorted(load.setup_s for load in loads)
    distinct = sorted(set(setups))
    step = max(1, len(distinct) // MAX_THRESHOLDS)
    weighings = (
        *(_crowded(loads, rests, limit, threshold) for threshold in distinct[::step]),
        *(_shared(loads, rests, limit, setups, most) for most in _mosts(setups, limit)),
        *(_broken(loads, rests, limit, toll) for toll in TOLLS),
    )
    return any(weight > least for weight in weighings)


def _cut(load: FileLoad, limit: float) -> tuple[int, float]:
    """Full pieces of a file, each a shard by itself, and the seconds of its tests beyond them."""
    if load.total_s <= 0:
        return 0, 0.0
    room = limit - load.setup_s
    full = max(0, math.ceil(load.total_s / room - ROUNDING) - 1)
    return full, max(0.0, load.total_s - full * room)


def _crowded(
    loads: Sequence[FileLoad], rests: Sequence[tuple[int, float]], limit: float, threshold: float
) -> float:
    """A piece that leaves less room than any other file's set-up counts as a full shard.

    A piece of w seconds with its set-up weighs w / T, but 1 above T - threshold and 0 below the threshold.
    A file whose set-up is at least the threshold weighs least in as many full pieces as it fills.
    """
    weight = 0.0
    for load, (full, rest) in zip(loads, rests, strict=True):
        if load.setup_s < threshold:
            continue
        whole = load.setup_s + rest
        weight += full + (1.0 if whole > (limit - threshold) * (1 + ROUNDING) else whole / limit)
    return weight


def _mosts(setups: Sequence[float], limit: float) -> Iterator[float]:
    """Seconds of tests a piece is counted with at most: those at which a shard needs one piece more."""
    for pieces, paid in enumerate(accumulate(setups[:MAX_PIECES]), start=1):
        if pieces > 1 and paid < limit:
            yield (limit - paid) / (pieces - 1)


def _shared(
    loads: Sequence[FileLoad],
    rests: Sequence[tuple[int, float]],
    limit: float,
    setups: Sequence[float],
    most: float,
) -> float:
    """A shard of k pieces holds T less k set-ups of tests, and k times `most` where pieces count no more.

    A piece weighs its seconds, `most` at most, over the greatest sum a shard can have. That is concave, so a
    file weighs least in full pieces and one rest.
    """
    greatest = most
    for pieces, paid in enumerate(accumulate(setups), start=1):
        if limit - paid <= greatest:
            break
        greatest = max(greatest, min(pieces * most, limit - paid))
    return (
        sum(
            full * min(most, limit - load.setup_s) + min(most, rest)
            for load, (full, rest) in zip(loads, rests, strict=True)
        )
        / greatest
    )


def counted_bound(loads: Sequence[FileLoad], shards: int, reached: float) -> float:
    """Of the q m + 1 longest tests some shard gets q + 1: T is no less than the q + 1 shortest of them.

    Each test brings its share of the set-up, that of as many tests of its file as fit into `reached`: a
    shard that ends sooner cannot hold more of them, so it pays at least what its tests bring.
    """
    sizes: list[float] = []
    for load in loads:
        if not load.seconds:
            continue
        most = fitting(load, reached)
        if not most:
            return math.inf
        sizes += [seconds + load.setup_s / most for seconds in load.seconds]
    sizes.sort(reverse=True)
    # Each sum is two looks at the running one: summed anew, 100,000 tests on two shards take half a minute.
    running = [0.0, *accumulate(sizes)]

    def about(together: int) -> float:
        last = together * shards
        return running[last + 1] - running[last - together]

    together = max(range(1, (len(sizes) - 1) // shards + 1), key=about, default=0)
    last = together * shards
    return math.fsum(sizes[last - together : last + 1]) * (1 - ROUNDING) if together else 0.0


def _broken(
    loads: Sequence[FileLoad], rests: Sequence[tuple[int, float]], limit: float, toll: float
) -> float:
    """Whoever is cut is cut in two at least, so every part of a file may be charged half of a toll on it.

    A whole file of D seconds weighs D; a part of x seconds weighs toll D + (1 - 2 toll) x, where a file that
    needs k parts anyway is charged 2 toll D / k a part. A shard with a whole files and b parts holds at most
    what the a + b least set-ups leave, and a of the shortest files must fit beside b set-ups.
    """
    wholes = sorted(load.total_s for load, (full, _) in zip(loads, rests, strict=True) if not full)
    shortest = sorted(load.whole_s for load, (full, _) in zip(loads, rests, strict=True) if not full)
    charges = sorted(
        (
            toll * load.total_s * (2 / (full + 1) if full else 1)
            for load, (full, _) in zip(loads, rests, strict=True)
        ),
        reverse=True,
    )
    longest = sorted(
        (min(load.total_s, limit - load.setup_s) for load in loads),
        reverse=True,
    )
    paid = [0.0, *accumulate(sorted(load.setup_s for load in loads)[: 2 * MAX_PIECES])]
    if paid[-1] < limit and len(paid) - 1 < len(loads):
        return 0.0  # more pieces fit on a shard than are looked at
    fit = [0.0, *accumulate(shortest)]
    most = [0.0, *accumulate(reversed(wholes))]
    charged = [0.0, *accumulate(charges)]
    parts = [0.0, *accumulate(longest)]
    greatest = 0.0
    for whole in range(len(fit)):
        if fit[whole] > limit:
            break
        for part in range(len(charged)):
            if whole + part >= len(paid) or fit[whole] + paid[part] > limit:
                break
            room = limit - paid[whole + part]
            held = min(most[whole], room)
            cut = min(room - held, parts[part])
            greatest = max(greatest, held + charged[part] + (1 - 2 * toll) * cut)
    return sum(load.total_s for load in loads) / greatest if greatest else 0.0


def on_grid(loads: Sequence[FileLoad], bound: float) -> float:
    """The bound, raised to what a shard can take where all seconds are multiples of one step of time.

    Measured seconds are not; guesses, medians and times to the tenth of a second are.
    """
    values = {load.setup_s for load in loads}
    for load in loads:
        values.update(load.seconds)
        if len(values) > MAX_VALUES:
            return bound
    ticks = [round(value * TICKS) for value in values]
    if any(abs(tick - value * TICKS) > ROUNDING for tick, value in zip(ticks, values, strict=True)):
        return bound
    step = math.gcd(*ticks)
    if not step:
        return bound
    # Where the bound lies on the grid already, rounding must not lift it a step.
    raised = math.ceil(bound * TICKS / step * (1 - ROUNDING)) * step / TICKS
    return max(bound, raised * (1 - ROUNDING))
