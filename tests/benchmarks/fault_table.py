"""Full runs with one fault each, and what they say of the tests that the faults' changes choose."""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ci.changes.measure import Measured, recall_of, run_faults, weigh
from ci.changes.mutants import Fault
from test_selection.change import EVIDENCE, RankedTests
from test_selection.interval import score_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What became of one fault, and what the table says of it besides.

    Attributes:
        measured: by budget, what is caught.
        first: the place of the first failing test in the order, from 1; 0: none fails.
        always: the share of tests that are in whatever changes, 0 to 1.
        ops: families, or functions, that the change names.
    """

    measured: Measured
    first: int
    always: float
    ops: Sequence[str]


# No test fails with it: whatever its change says, no choice is right or wrong.
SURVIVED = Row(
    measured=Measured(failed=0, everything=False, caught={}, shares={}), first=0, always=0.0, ops=()
)


def row(ranked: RankedTests, failed: Collection[str], ops: Sequence[str]) -> Row:
    """The row of a fault, by the order that its change gives and the tests that fail with it."""
    return Row(
        measured=weigh(ranked, failed),
        first=next((place for place, name in enumerate(ranked.ids, 1) if name in failed), 0),
        always=len(ranked.always) / len(ranked.ids),
        ops=ops,
    )


def read_options(about: str | None, *, faults: int, log: str) -> argparse.Namespace:
    """The run whose tests are used, how many faults there are, and where their runs are noted."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("run", type=Path)
    parser.add_argument("--faults", type=int, default=faults)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=Path, default=Path(log))
    return parser.parse_args()


def run_all(
    faults: Sequence[Fault],
    run: Callable[[Fault], Collection[str]],
    log: Path,
    *,
    run_s: float,
) -> list[frozenset[str]]:
    """The tests that fail with each fault; says how long that may take, and how far it is."""
    minutes = len(faults) * run_s / 60
    print(f"{len(faults)} faults, {run_s:.1f} s a full run: about {minutes:.0f} minutes", flush=True)
    return run_faults(faults, run, log, say=lambda text: print(text, flush=True))


def lines(found: Sequence[Row], faults: Sequence[Fault], tests: int) -> list[str]:
    """By budget, the faults and the failing tests that were caught, and the share of tests that it took.

    Faults of which any test may break stand apart: they are in the second line of a budget and no other.
    """
    killed = [one for one in found if one.measured.failed]
    measured = [one.measured for one in killed]
    every = [replace(one, everything=False) for one in measured]
    said = [
        f"{len(found)} faults, {len(killed)} found by a full run of {tests} tests",
        f"resolved to any test: {sum(one.everything for one in measured)}",
    ]
    for budget in recall_of(every):
        if not all(one.everything for one in measured):
            said.append(f"{budget:>9}: {words(measured, budget)}")
        said.append(f"{budget:>9}, with those of any test: {words(every, budget)}")
    firsts = sorted(one.first for one in killed)
    ninth = firsts[math.ceil(0.9 * len(firsts)) - 1]
    place = f"90th percentile {ninth} ({100 * ninth / tests:.2f} % of {tests})"
    said.append(f"first failing test: median {statistics.median(firsts):g}, {place}")
    said.append(f"always in: {100 * statistics.fmean(one.always for one in killed):.2f} % of the tests")
    said += [
        f"missed: {fault.name}: {one.measured.caught[EVIDENCE]} of {one.measured.failed} failing tests"
        for fault, one in zip(faults, found, strict=True)
        if one.measured.failed and one.measured.caught[EVIDENCE] < one.measured.failed
    ]
    return [*said, *_held_out([one for one in measured if not one.everything])]


def words(found: Sequence[Measured], budget: str) -> str:
    """What a budget caught of the faults that a full run found, without those of which any test may break."""
    killed = [one for one in found if one.failed and not one.everything]
    recall = recall_of(killed)[budget]
    tests_of = sum(one.failed for one in killed)
    share = 100 * sum(one.caught[budget] for one in killed) / tests_of
    low, _ = score_interval(recall.caught, recall.faults)
    rate = f"{100 * recall.caught / recall.faults:.2f} %, at least {100 * low:.2f} %"
    shares = f"median {100 * recall.median_share:.2f} %, mean {100 * recall.mean_share:.2f} %"
    return (
        f"{recall.caught}/{recall.faults} changes ({rate}), {share:.2f} % of {tests_of} failing tests; "
        f"share {shares}"
    )


def _held_out(killed: Sequence[Measured]) -> list[str]:
    """Whether the rate that every other fault states, at least, is seen with those between."""
    said = []
    for budget, stated in recall_of(killed[::2] if killed[1:] else ()).items():
        low, _ = score_interval(stated.caught, stated.faults)
        seen = recall_of(killed[1::2])[budget]
        rate = seen.caught / seen.faults
        holds = "holds" if rate >= low else "does not hold"
        said.append(
            f"held out, {budget}: {100 * low:.1f} % at least is stated, {100 * rate:.1f} % seen: {holds}"
        )
    return said
