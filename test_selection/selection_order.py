"""The selection order: one order of all tests, of which every stage is a prefix. Pure.

Must-run tests come first, then a greedy cover of what tests are about, then the rest, stratified. The cover
is the greedy of set cover (Johnson 1974; Chvatal 1979), evaluated lazily: what a test would add only ever
shrinks, so tests wait in a bucket a level and are looked at again when their bucket is due (Minoux 1978).
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from operator import attrgetter
from typing import Literal, NamedTuple, TypeVar

from test_selection.catalog import CatalogTest
from test_selection.errors import UsageError

T = TypeVar("T")


def spread(
    rows: Sequence[T], strata: Sequence[Callable[[T], Hashable]], offset: Callable[[T], float]
) -> list[T]:
    """Order rows so that every stratum is spread evenly, as systematic sampling spreads its sample.

    The j-th of a stratum's n rows stands at (j + u) / n of the way, u being the stratum's own offset: in
    any prefix the stratum is within one row of its share of the way gone. Done for the finest stratum first
    and for coarser ones on its result, so that a coarse stratum's rows come in the order that spreads the
    finer ones within it.

    Args:
        rows: in an order of their own, such as by hash, which settles every tie.
        strata: a row's stratum at each level, the finest first, each nested in the next.
        offset: a number in [0, 1) that the first row of a stratum lends it.

    Returns:
        The same rows.
    """
    order = list(rows)
    for stratum in strata:
        keys = [stratum(row) for row in order]
        sizes = Counter(keys)
        begun: dict[Hashable, float] = {}
        places: list[float] = []
        for row, key in zip(order, keys, strict=True):
            at = begun.get(key)
            if at is None:
                at = offset(row)
            places.append(at / sizes[key])
            begun[key] = at + 1
        # Sorting is stable, so that rows at the same place keep the order they came in.
        order = [order[number] for number in sorted(range(len(order)), key=places.__getitem__)]
    return order


# What the cover is made of, in the order in which they are completed and told.
KINDS = ("files", "ops", "dtypes", "templates", "op-dtype pairs")
MUST_RUN = "must-run"
# How many of file, op and dtype a test adds outweighs which; a template outweighs a pair.
_FIRST, _DTYPE, _FILE, _TEMPLATE, _PAIR = 16, 8, 4, 2, 1
_LEVELS = 3 * _FIRST + _DTYPE + _FILE + _TEMPLATE + _PAIR + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionOrder:
    """All tests in their order.

    Attributes:
        tests: the order.
        must_run: how many of the first are must-run tests.
        cover: how many of the first are must-run tests or part of the cover; the rest is stratified.
        complete: how many of the first hold every file, op, dtype, template and op-dtype pair there is, by
            the names of `KINDS`.
    """

    tests: list[CatalogTest]
    must_run: int = 0
    cover: int = 0
    complete: Mapping[str, int] = field(default_factory=dict)


class _Row(NamedTuple):
    """A test on its way: numbers for its template and pair, and its SHA-256 for what nothing else decides."""

    test: CatalogTest
    template: int
    pair: int | None
    digest: bytes


# Called for each of a million tests, several times: these are some times faster than functions of our own.
_digest = attrgetter("digest")
_strata = (attrgetter("template", "test.op"), attrgetter("template"), attrgetter("test.file"))


class _Uncovered:
    """What no chosen test is about yet, and how many tests it took to complete each kind."""

    def __init__(self, rows: Sequence[_Row]) -> None:
        self.files: set[str] = {row.test.file for row in rows}
        self.ops: set[str | None] = {row.test.op for row in rows}
        self.dtypes: set[str | None] = {row.test.dtype for row in rows}
        self.templates: set[int] = {row.template for row in rows}
        self.pairs: set[int | None] = {row.pair for row in rows}
        self.ops.discard(None)
        self.dtypes.discard(None)
        self.pairs.discard(None)
        self.taken = 0
        self.complete = {kind: 0 for kind, left in zip(KINDS, self._sets(), strict=True) if not left}

    def level(self, row: _Row, most: int) -> int:
        """What a test would add, known to be `most` at the most; never more later than now."""
        test, template, pair, _ = row
        below = _TEMPLATE * (template in self.templates) + _PAIR * (pair in self.pairs)
        if most < _FILE:
            return below
        file, dtype = test.file in self.files, test.dtype in self.dtypes
        return _FIRST * ((test.op in self.ops) + file + dtype) + _DTYPE * dtype + _FILE * file + below

    def take(self, row: _Row) -> None:
        """Count a test as chosen."""
        self.taken += 1
        self.files.discard(row.test.file)
        self.ops.discard(row.test.op)
        self.dtypes.discard(row.test.dtype)
        self.templates.discard(row.template)
        self.pairs.discard(row.pair)
        for kind, left in zip(KINDS, self._sets(), strict=True):
            if not left:
                self.complete.setdefault(kind, self.taken)

    def _sets(self) -> tuple[Collection[object], ...]:
        return self.files, self.ops, self.dtypes, self.templates, self.pairs


def build_order(
    tests: Iterable[CatalogTest],
    *,
    must_run: Collection[str] = (),
    seconds: Mapping[str, float] | None = None,
    history: Mapping[str, float] | None = None,
) -> SelectionOrder:
    """Order tests: must-run ones, a greedy cover, the rest by hash and stratified.

    A test is about a file, an op, a dtype, a template (file, class and name) and a pair of op and dtype. In
    each step the test comes that adds the most files, ops and dtypes; of as many the dtype goes first and the
    file next, for there are far fewer of them than ops, so that they are complete sooner at no cost. Among
    those comes one that adds a template, then one that adds a pair. Ties go to the higher share of past
    failures, then to the fewer seconds, then to the lower SHA-256 of the id. The order depends on nothing
    else: not on the order of `tests`.

    Args:
        tests: with unique ids.
        must_run: ids that come first of all, in greedy order too; those not among `tests` count for nothing.
        seconds: by id; a test that is not there counts as free.
        history: share of past runs that failed, 0 to 1, by id; a test that is not there never failed.
    """
    rows = _in_tie_order(tests, seconds or {}, history or {})
    wanted = set(must_run)
    uncovered = _Uncovered(rows)
    must = [row for row in rows if row.test.id in wanted]
    others = [row for row in rows if row.test.id not in wanted] if must else rows
    first, idle = _greedy(must, uncovered)
    for row in idle:
        uncovered.take(row)
    cover, left = _greedy(others, uncovered)
    order = [*first, *idle, *cover, *_stratified(left)]
    return SelectionOrder(
        tests=[row.test for row in order],
        must_run=len(must),
        cover=len(must) + len(cover),
        complete={kind: uncovered.complete.get(kind, 0) for kind in KINDS},
    )


def about(test: CatalogTest) -> tuple[object, ...]:
    """What a test is about, in the order of `KINDS`; None where it is about nothing of that kind."""
    pair = None if test.op is None or test.dtype is None else (test.op, test.dtype)
    return test.file, test.op, test.dtype, (test.file, test.cls, test.template), pair


def _in_tie_order(
    tests: Iterable[CatalogTest], seconds: Mapping[str, float], history: Mapping[str, float]
) -> list[_Row]:
    # Numbers for templates and pairs: a million tests are looked up several times.
    templates: dict[tuple[str, str, str], int] = {}
    pairs: dict[tuple[str, str], int] = {}
    rows = []
    for test in tests:
        template = templates.setdefault((test.file, test.cls, test.template), len(templates))
        pair = None
        if test.op is not None and test.dtype is not None:
            pair = pairs.setdefault((test.op, test.dtype), len(pairs))
        digest = hashlib.sha256(test.id.encode("utf-8", "surrogatepass")).digest()
        rows.append(_Row(test, template, pair, digest))
    # Sorting is stable: the weightiest last. Sorting by numbers is several times faster than by tuples.
    rows.sort(key=_digest)
    if seconds:
        rows.sort(key=lambda row: seconds.get(row.test.id, 0.0))
    if history:
        failed = [row for row in rows if history.get(row.test.id, 0.0) > 0]
        others = [row for row in rows if history.get(row.test.id, 0.0) <= 0]
        rows = sorted(failed, key=lambda row: -history[row.test.id]) + others
    return rows


def _greedy(rows: Sequence[_Row], uncovered: _Uncovered) -> tuple[list[_Row], list[_Row]]:
    """Rows, given in the order of ties, as (the cover in greedy order, what adds nothing)."""
    buckets: list[list[int]] = [[] for _ in range(_LEVELS)]
    buckets[-1] = list(range(len(rows)))
    chosen: list[_Row] = []
    for level in range(_LEVELS - 1, 0, -1):
        # Everything that adds this much is here by now, and numbers are the order of ties.
        for number in sorted(buckets[level]):
            row = rows[number]
            now = uncovered.level(row, level)
            if now == level:
                uncovered.take(row)
                chosen.append(row)
            else:
                buckets[now].append(number)
        buckets[level] = []
    return chosen, [rows[number] for number in sorted(buckets[0])]


def _stratified(rows: list[_Row]) -> list[_Row]:
    by_hash = sorted(rows, key=_digest)
    return spread(by_hash, _strata, _offset)


def _offset(row: _Row) -> float:
    # Other bits than those that sort, and no more of them than a float holds: always below 1.
    return int.from_bytes(row.digest[8:14], "big") / 2.0**48


By = Literal["count", "seconds"]
# A float holds 53 bits without rounding, so that no rank comes out as 1.
_PLACE_BITS = 53


def hashed_rank(name: str) -> float:
    """The rank in [0, 1) of a test that no lock has: the SHA-256 of its test id, nothing else."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return (int.from_bytes(digest[:8], "big") >> (64 - _PLACE_BITS)) / 2.0**_PLACE_BITS


def share(percent: float) -> Fraction:
    """The decimal number that was written, as a part of 1: 0.1 % is exactly 1/1000.

    Raises:
        UsageError: `percent` is not between 0 and 100.
    """
    if not 0 <= percent <= 100:  # noqa: PLR2004  # per cent
        raise UsageError(f"{percent} is not a percentage", remedy="give a number from 0 to 100")
    return Fraction(str(percent)) / 100


def quota(percent: float, count: int) -> int:
    """How many of `count` tests are `percent` of them, rounded up."""
    return math.ceil(share(percent) * count)


def taken(percent: float, by: By, seconds: Sequence[float]) -> int:
    """How many of the first tests of an order are in.

    By count, the test at rank r of N is in where r / N < percent / 100, so that exactly ceil(p N / 100) are.
    By seconds it is in while those before it take less than `percent` of all.

    Args:
        percent: 0 to 100.
        by: what the share is of.
        seconds: of each test, in the selection order.
    """
    if by == "count":
        return quota(percent, len(seconds))
    before = [0, *itertools.accumulate(milliseconds(seconds))]
    return bisect.bisect_left(before, share(percent) * before[-1], 0, len(seconds))


def milliseconds(seconds: Iterable[float]) -> list[int]:
    """Whole milliseconds, at least 1, so that sums are exact and every test weighs something."""
    return [max(1, round(one * 1000)) for one in seconds]


def percent_for(number: int, by: By, seconds: Sequence[float]) -> float:
    """The least percentage, in whole hundredths, at which the first `number` tests are all in."""
    if not number:
        return 0.0
    weights = [1] * len(seconds) if by == "count" else milliseconds(seconds)
    before = sum(weights[: number - 1])
    # In where those before it are less, so it takes a hundredth of a per cent more.
    return min(100.0, (before * 10_000 // sum(weights) + 1) / 100)


def below(name: str, percent: float) -> bool:
    """Whether a test that no lock has is in."""
    return hashed_rank(name) < share(percent)


def seconds_of(tests: Iterable[CatalogTest], seconds: Mapping[str, float]) -> list[float]:
    """Seconds of each test, in order, as a lock keeps them: to the millisecond, at least one."""
    rows = [seconds.get(test.id, 0.0) for test in tests]
    return [whole / 1000 for whole in milliseconds(rows)]
