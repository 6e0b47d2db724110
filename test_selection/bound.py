"""The lower bound of a split's longest shard when every shard pays the set-up of each file it touches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from test_selection.catalog import CatalogTest
from test_selection.durations import UNKNOWN_TEST_S

# Seconds are sums of many floats: quotients this close to a whole number are meant to be it.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLoad:
    """The tests of one file, longest first (ties by id), and what they and the file's set-up cost.

    Attributes:
        file: the test file.
        setup_s: seconds to import and collect the file, paid by every shard that touches it.
        seconds: seconds of each test, descending.
        ids: the canonical id of each test, in the order of `seconds`.
        total_s: the sum of `seconds`.
    """

    file: str
    setup_s: float
    seconds: tuple[float, ...]
    ids: tuple[str, ...]
    total_s: float

    @property
    def whole_s(self) -> float:
        """Seconds of the whole file on one shard."""
        return self.setup_s + self.total_s


def file_loads(
    tests: Iterable[CatalogTest], test_s: Mapping[str, float], file_s: Mapping[str, float]
) -> list[FileLoad]:
    """Gather tests by file, in the order of the files' names; the order of `tests` does not count.

    Args:
        tests: what is to be split.
        test_s: seconds by canonical id; a test without gets what an unknown test is given.
        file_s: set-up seconds by file; a file without costs nothing to set up.
    """
    by_file: dict[str, list[tuple[float, str]]] = {}
    for test in tests:
        by_file.setdefault(test.file, []).append((-test_s.get(test.id, UNKNOWN_TEST_S), test.id))
    loads = []
    for file in sorted(by_file):
        rows = sorted(by_file[file])
        seconds = tuple(-negated for negated, _ in rows)
        loads.append(
            FileLoad(
                file=file,
                setup_s=file_s.get(file, 0.0),
                seconds=seconds,
                ids=tuple(name for _, name in rows),
                total_s=math.fsum(seconds),
            )
        )
    return loads


def longest_test(loads: Iterable[FileLoad]) -> float:
    """Seconds of the longest test with the set-up of its file: no shard that runs it ends sooner."""
    return max((load.setup_s + load.seconds[0] for load in loads), default=0.0)


def work_within(loads: Iterable[FileLoad], limit: float) -> float:
    """Least seconds of all shards together when none may exceed `limit`: sum of D_f + s_f k_f(T).

    File f with D_f seconds of tests and s_f of set-up touches at least k_f(T) = max(1, ceil(D_f / (T - s_f)))
    shards. Infinite where a file's set-up leaves no room for its tests.
    """
    work = 0.0
    for load in loads:
        pieces = 1
        if load.total_s > 0:
            room = limit - load.setup_s
            if room <= 0:
                return math.inf
            pieces = max(1, math.ceil(load.total_s / room - ROUNDING))
        work += load.total_s + load.setup_s * pieces
    return work


def lower_bound(loads: Sequence[FileLoad], shards: int) -> float:
    """Seconds below which no split over `shards` shards can end.

    The least T that is no less than the longest test with its set-up and for which all shards together, m T,
    hold the work that T asks for. The work falls as T grows, so bisection finds it.
    """
    longest = longest_test(loads)

    def fits(limit: float) -> bool:
        return work_within(loads, limit) <= shards * limit * (1 + ROUNDING)

    start = max(longest, math.fsum(load.whole_s for load in loads) / shards)
    found = least(fits, start)
    # Between two steps of k_f the bound is the work over the shards, exactly.
    exact = max(longest, work_within(loads, found) / shards)
    return exact if exact <= found and fits(exact) else found


def least(fits: Callable[[float], bool], start: float, *, tolerance: float = ROUNDING) -> float:
    """The least limit from `start` on that fits, within a relative `tolerance`; `fits` stays true."""
    low = high = start
    step = 2.0**-13
    while not fits(high):
        low, high = high, start * (1 + step)
        step *= 2
    while high - low > tolerance * high:
        middle = (low + high) / 2
        if fits(middle):
            high = middle
        else:
            low = middle
    return high
