"""The lock file: every test's rank in the selection order, kept whoever came later."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from test_selection.catalog import CatalogTest, parse_test
from test_selection.errors import BadFileError, UsageError
from test_selection.files import read_lines, write_lines
from test_selection.ids import parse_id
from test_selection.selection_order import (
    KINDS,
    MUST_RUN,
    By,
    SelectionOrder,
    below,
    build_order,
    percent_for,
    seconds_of,
    taken,
)

KIND = "ladder"
FILE = "selection.lock.gz"
OP_SUITE = "op-suite"
PYTORCH = "pytorch"
# How torch was built says nothing of which tests there are; a commit, as in `+git1a2b3c4`, does.
_BUILD = re.compile(r"\+(?:cpu|cu\d+|rocm[\d.]+|xpu)(?:\.\w+)*$")
_REMEDY = "restore the file from version control, or write it again with --relock"
_TIES = {False: "hash", True: "history, seconds, hash"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A selection order, what it is of, and what it was made with.

    Attributes:
        torch: the version of torch, without how it was built.
        device: the device of the collection.
        tree: which tests, `op-suite` or `pytorch`.
        scope: version text of the scope.
        order: the order.
        seconds: of each test, in that order.
        history: share of past runs that failed, by id, of those that ever did.
        weighed: whether ties went by history and seconds, as they do in a lock that is kept.
    """

    torch: str
    device: str
    tree: str
    scope: str = ""
    order: SelectionOrder
    seconds: Sequence[float]
    history: Mapping[str, float] = field(default_factory=dict)
    weighed: bool = False

    def complete_at(self, by: By) -> dict[str, float]:
        """The percentage at which the must-run tests and each kind of the cover are complete."""
        rows = {MUST_RUN: self.order.must_run, **self.order.complete}
        return {kind: percent_for(number, by, self.seconds) for kind, number in rows.items()}


def make_lock(
    tests: Iterable[CatalogTest],
    *,
    torch: str,
    device: str,
    tree: str = PYTORCH,
    scope: str = "",
    must_run: Collection[str] = (),
    seconds: Mapping[str, float] | None = None,
    history: Mapping[str, float] | None = None,
    weighed: bool = False,
) -> Lock:
    """Lock the in-scope tests of one collection.

    Args:
        tests: all tests in scope.
        torch: the version they were collected with.
        device: the device they were collected for.
        tree: `op-suite` or `pytorch`.
        scope: version text of the scope.
        must_run: ids that come first.
        seconds: what each test is expected to take, by id.
        history: share of past runs that failed, by id.
        weighed: whether history and seconds settle ties; without it two machines with other pasts come to
            the same order.
    """
    rows = list(tests)
    times = dict(zip((test.id for test in rows), seconds_of(rows, seconds or {}), strict=True))
    # What is written is what the order is made with, so that it can be made again from the file.
    rounded = {test.id: round(history.get(test.id, 0.0), 4) for test in rows} if weighed and history else {}
    past = {name: value for name, value in rounded.items() if value > 0}
    order = build_order(rows, must_run=must_run, seconds=times if weighed else {}, history=past)
    return Lock(
        torch=torch_pin(torch),
        device=device,
        tree=tree,
        scope=scope,
        order=order,
        seconds=[times[test.id] for test in order.tests],
        history=past,
        weighed=weighed,
    )


def narrowed(lock: Lock, keep: Callable[[list[CatalogTest]], list[CatalogTest]]) -> Lock:
    """The lock of a part of its tests: made anew from what the lock holds, and from nothing else.

    Args:
        lock: of all tests in scope.
        keep: gives those of some tests that pass, by what their ids say alone.
    """
    old = lock.order
    kept = keep(old.tests)
    if len(kept) == len(old.tests):
        return lock
    times = {test.id: one for test, one in zip(old.tests, lock.seconds, strict=True)}
    order = build_order(
        kept,
        must_run=[test.id for test in old.tests[: old.must_run]],
        seconds=times if lock.weighed else {},
        history=lock.history,
    )
    return replace(lock, order=order, seconds=[times[test.id] for test in order.tests])


def members(
    tests: Iterable[CatalogTest],
    lock: Lock,
    *,
    percent: float,
    by: By = "count",
    must_run: Collection[str] = (),
) -> list[CatalogTest]:
    """The tests that rank below `percent`.

    A locked test has its rank in the lock, one that came since a hashed rank, and one that was named must-run
    since the very first. So nobody's rank depends on who else came or went.

    Args:
        tests: what there is now, in scope.
        lock: the order.
        percent: 0 to 100.
        by: what the share is of.
        must_run: ids that are in at any percentage above 0.

    Raises:
        UsageError: `percent` is not between 0 and 100.
    """
    ranked = [test.id for test in lock.order.tests]
    first = taken(percent, by, lock.seconds)
    inside, outside = set(ranked[:first]), set(ranked[first:])
    if percent > 0:
        since = set(must_run) - set(ranked[: lock.order.must_run])
        inside |= since
        outside -= since
    return [
        test for test in tests if test.id in inside or (test.id not in outside and below(test.id, percent))
    ]


def mismatch(lock: Lock, *, torch: str, device: str, tree: str) -> str:
    """Why a lock is not one of these tests; empty where it is."""
    wanted = {"torch": torch_pin(torch), "device": device, "tests": tree}
    seen = {"torch": lock.torch, "device": lock.device, "tests": lock.tree}
    return ", ".join(
        f"{key} {seen[key] or 'unknown'}, not {value}" for key, value in wanted.items() if seen[key] != value
    )


def torch_pin(version: str) -> str:
    """A torch version without how it was built: `2.13.0+cpu` is 2.13.0."""
    return _BUILD.sub("", version)


def write_lock(path: Path, lock: Lock) -> None:
    """Write a lock: a header line, then id and seconds of each test in the selection order.

    Raises:
        UsageError: an id of a test is no canonical one; nothing is written.
    """
    order = lock.order
    header = {
        "torch": lock.torch,
        "device": lock.device,
        "tests": lock.tree,
        "scope": lock.scope,
        "ties": _TIES[lock.weighed],
        "counts": {
            "tests": len(order.tests),
            MUST_RUN: order.must_run,
            "cover": order.cover,
            **order.complete,
        },
        "complete_at_percent": lock.complete_at("count"),
    }
    write_lines(path, KIND, header, _rows(lock))


def read_lock(path: Path) -> Lock:
    """Read a lock.

    Raises:
        MissingInputError: there is no such file.
        BadFileError: it is cut short, of another schema, a key is missing or wrong, or an id stands twice.
    """
    lines = read_lines(path, KIND)
    header = next(lines)
    number = 1
    tests: list[CatalogTest] = []
    seconds: dict[str, float] = {}
    history: dict[str, float] = {}
    try:
        counts = _counts(header["counts"])
        torch, device, tree, scope = (str(header[key]) for key in ("torch", "device", "tests", "scope"))
        weighed = {text: flag for flag, text in _TIES.items()}[header["ties"]]
        for number, row in enumerate(lines, start=2):  # noqa: B007  # names the line of an error
            name = row["id"]
            if not isinstance(name, str):
                raise TypeError(f"id is {name!r}, not text")
            if name in seconds:
                raise ValueError(f"the id {name!r} is there twice")
            tests.append(parse_test(name))
            seconds[name] = _number(row["seconds"], 1e9, "seconds")
            if "failed" in row:
                history[name] = _number(row["failed"], 1, "failed")
        if len(tests) != counts["tests"]:
            raise ValueError(f"{len(tests):,} tests, but the first line says {counts['tests']:,}")
    except (KeyError, TypeError, ValueError, AttributeError, UsageError) as error:
        said = f"key {error} is missing or unknown" if isinstance(error, KeyError) else str(error)
        raise BadFileError(said.partition("\n")[0], where=f"{path}:{number}", remedy=_REMEDY) from error
    return Lock(
        torch=torch,
        device=device,
        tree=tree,
        scope=scope,
        order=SelectionOrder(
            tests=tests,
            must_run=counts[MUST_RUN],
            cover=counts["cover"],
            complete={kind: counts[kind] for kind in KINDS},
        ),
        seconds=list(seconds.values()),
        history=history,
        weighed=weighed,
    )


def _rows(lock: Lock) -> Iterator[dict[str, Any]]:
    for test, seconds in zip(lock.order.tests, lock.seconds, strict=True):
        parse_id(test.id)  # what could not be read again is not written
        row = {"id": test.id, "seconds": seconds}
        if test.id in lock.history:
            row["failed"] = lock.history[test.id]
        yield row


def _counts(table: Any) -> dict[str, int]:
    names = ("tests", MUST_RUN, "cover", *KINDS)
    counts = {name: table[name] for name in names}
    for name, value in counts.items():
        if type(value) is not int or not 0 <= value <= counts["tests"]:
            raise ValueError(f"counts.{name} is {value!r}, not a whole number from 0 to the number of tests")
    return counts


def _number(value: Any, most: float, key: str) -> float:
    # Infinity and NaN are legal to Python's JSON reader and would poison every stage by seconds.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ValueError(f"{key} is {value!r}, not a number from 0 to {most:g}")
    return float(value) if math.isfinite(value) else 0.0
