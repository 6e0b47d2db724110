"""What others do with the same tests: each from tests to the test ids of every shard.

pytest-split and pytest-shard are called as they are installed. Whole files and PyTorch's rule are stated here
anew. Where pytest-split's lists of deselected tests would fill the memory, its rules are stated anew too.
"""

from __future__ import annotations

import hashlib
import heapq
import importlib
import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.benchmarks.inputs import Work

Split = list[list[str]]
Peer = Callable[[Work, Mapping[str, float], int], Split]
# Each test is put on a list for every shard it is not on.
MOST_DESELECTED = 6_000_000
# PyTorch cuts files of more than ten minutes, and deals their tests out by pytest-shard's hash.
PYTORCH_LONG_S = 600.0


class Item:
    """What the plugins look at of a pytest item."""

    __slots__ = ("nodeid",)

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid

    def __str__(self) -> str:
        return self.nodeid


def missing() -> list[str]:
    """The peers that are not installed."""
    return [name for name in ("pytest_split", "pytest_shard") if importlib.util.find_spec(name) is None]


def fits_pytest_split(work: Work, shards: int) -> bool:
    """Whether pytest-split itself ends in reasonable time and memory."""
    return len(work.tests) * shards <= MOST_DESELECTED


def pytest_split(algorithm: str) -> Peer:
    """pytest-split with one of its algorithms; the same rule stated anew where it would not end."""
    algorithms = importlib.import_module("pytest_split.algorithms").Algorithms

    stated = {"least_duration": _least_duration, "duration_based_chunks": _chunks}[algorithm]

    def split(work: Work, file_s: Mapping[str, float], shards: int) -> Split:
        if not fits_pytest_split(work, shards):
            return stated(work, file_s, shards)
        items: list[Any] = [Item(test.id) for test in work.tests]
        groups = algorithms[algorithm].value(shards, items, dict(work.test_s))
        return [[item.nodeid for item in group.selected] for group in groups]

    return split


def _least_duration(work: Work, _: Mapping[str, float], shards: int) -> Split:
    loads = [(0.0, shard) for shard in range(shards)]
    found: Split = [[] for _ in range(shards)]
    for test in sorted(work.tests, key=lambda test: (-work.test_s[test.id], test.id)):
        seconds, shard = loads[0]
        found[shard].append(test.id)
        heapq.heapreplace(loads, (seconds + work.test_s[test.id], shard))
    return found


def _chunks(work: Work, _: Mapping[str, float], shards: int) -> Split:
    share = sum(work.test_s.values()) / shards
    found: Split = [[]]
    seconds = 0.0
    for test in work.tests:
        if seconds >= share:
            found.append([])
            seconds = 0.0
        found[-1].append(test.id)
        seconds += work.test_s[test.id]
    return found


def pytest_shard(work: Work, _: Mapping[str, float], shards: int) -> Split:
    """pytest-shard's hash of the node id."""
    # The peers may be missing, and this one has no types.
    sha256hash = importlib.import_module("pytest_shard.pytest_shard").sha256hash

    found: Split = [[] for _ in range(shards)]
    for test in work.tests:
        found[sha256hash(test.id) % shards].append(test.id)
    return found


def whole_files(work: Work, file_s: Mapping[str, float], shards: int) -> Split:
    """Whole files, the longest first, each to the shard that ends first."""
    return _longest_first([(file, 0, 1) for file in work.files], work, file_s, shards)


def pytorch_rule(work: Work, file_s: Mapping[str, float], shards: int) -> Split:
    """PyTorch's published rule: long files in equal parts, the longest part first to the least loaded.

    A file of S seconds becomes ceil(S / 600) parts. Every file is known and of one kind here, so that its
    handling of serial and of unknown files, dealt round robin, does not come into play. File times count no
    set-up, as in its statistics of test seconds.
    """
    totals = _file_totals(work)
    parts = [
        (file, part, count)
        for file in work.files
        for count in [max(1, math.ceil(totals[file] / PYTORCH_LONG_S))]
        for part in range(count)
    ]
    return _longest_first(parts, work, dict.fromkeys(file_s, 0.0), shards)


def _longest_first(
    parts: Sequence[tuple[str, int, int]], work: Work, file_s: Mapping[str, float], shards: int
) -> Split:
    totals, members = _file_totals(work), _members(parts, work)
    order = sorted(parts, key=lambda one: (-(totals[one[0]] / one[2] + file_s[one[0]]), one))
    loads = [(0.0, shard) for shard in range(shards)]
    found: Split = [[] for _ in range(shards)]
    for file, part, count in order:
        seconds, shard = loads[0]
        found[shard] += members[file, part]
        heapq.heapreplace(loads, (seconds + totals[file] / count + file_s[file], shard))
    return found


def _members(parts: Sequence[tuple[str, int, int]], work: Work) -> dict[tuple[str, int], list[str]]:
    counts = {file: count for file, _, count in parts}
    found: dict[tuple[str, int], list[str]] = {(file, part): [] for file, part, _ in parts}
    for test in work.tests:
        count = counts[test.file]
        found[test.file, _hash(test.id) % count].append(test.id)
    return found


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest(), "little")


def _file_totals(work: Work) -> dict[str, float]:
    totals = dict.fromkeys(work.files, 0.0)
    for test in work.tests:
        totals[test.file] += work.test_s[test.id]
    return totals


def makespan(split: Split, work: Work, file_s: Mapping[str, float]) -> float:
    """Seconds of the longest shard, each paying the set-up of every file it touches."""
    longest = 0.0
    for ids in split:
        files = {name.partition("::")[0] for name in ids}
        seconds = math.fsum(work.test_s[name] for name in ids) + sum(file_s[file] for file in files)
        longest = max(longest, seconds)
    return longest


def peers() -> dict[str, Peer]:
    """Every peer that is there, by name."""
    found: dict[str, Peer] = {}
    if "pytest_split" not in missing():
        found["least_duration"] = pytest_split("least_duration")
        found["chunks"] = pytest_split("duration_based_chunks")
    if "pytest_shard" not in missing():
        found["hash"] = pytest_shard
    return {**found, "whole files": whole_files, "PyTorch": pytorch_rule}
