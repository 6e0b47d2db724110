"""Full runs with one fault each, and what they say of the tests that the faults' changes choose."""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from ci.changes.measure import Fault, Measured, recall_of, run_faults
from test_selection.change import EVIDENCE
from test_selection.interval import score_interval


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
    workers: int = 1,
) -> list[frozenset[str]]:
    """The tests that fail with each fault; says how long that may take, and how far it is."""
    minutes = len(faults) * run_s / 60 / workers
    print(f"{len(faults)} faults, {run_s:.1f} s a full run: about {minutes:.0f} minutes", flush=True)
    return run_faults(faults, run, log, say=lambda text: print(text, flush=True), workers=workers)


def lines(found: Sequence[Measured], faults: Sequence[Fault], tests: int) -> list[str]:
    """By budget, the faults and the failing tests that were caught, and the share of tests that it took."""
    killed = [one for one in found if one.failed]
    said = [
        f"{len(found)} faults, {len(killed)} found by a full run of {tests} tests",
        f"resolved to any test: {sum(one.everything for one in killed)}",
        *(f"{budget:>9}: {words(killed, budget)}" for budget in recall_of(killed)),
    ]
    firsts = sorted(one.first for one in killed)
    ninth = firsts[math.ceil(0.9 * len(firsts)) - 1]
    place = f"90th percentile {ninth} ({100 * ninth / tests:.2f} % of {tests})"
    said.append(f"first failing test: median {statistics.median(firsts):g}, {place}")
    said.append(f"always in: {100 * statistics.fmean(one.always for one in killed):.2f} % of the tests")
    said += [
        f"missed: {fault.name}: {one.caught[EVIDENCE]} of {one.failed} failing tests"
        for fault, one in zip(faults, found, strict=True)
        if one.failed and one.caught[EVIDENCE] < one.failed
    ]
    return [*said, *_held_out(killed)]


def words(found: Sequence[Measured], budget: str) -> str:
    """What a budget caught of the faults that a full run found."""
    killed = [one for one in found if one.failed]
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
    for budget, stated in recall_of(killed[::2]).items():
        low, _ = score_interval(stated.caught, stated.faults)
        seen = recall_of(killed[1::2])[budget]
        rate = seen.caught / seen.faults
        holds = "holds" if rate >= low else "does not hold"
        said.append(
            f"held out, {budget}: {100 * low:.1f} % at least is stated, {100 * rate:.1f} % seen: {holds}"
        )
    return said
