"""Plans: makespans over the lower bound, time to plan, and days on paper, beside the peers.

Everything is measured in this one process, so that the ratios mean something on any machine.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from test_selection.bound import lower_bound
from test_selection.loads import file_loads
from test_selection.pack import make_plan
from test_selection.plan import Plan
from test_selection.selection_order import build_order
from test_selection.simulate import modes, simulate
from test_selection.simulated_day import Uncertainty, draw_truth
from tests.benchmarks import inputs, peers
from tests.benchmarks.inputs import Work

SHARDS = (24, 128, 512, 1024, 2048)
QUICK_SHARDS = (4, 24)
SETUPS_S = (5.0, 15.0)
# The day of the promise: files off by a lognormal sigma of 0.3, cards by 10 %.
DAY = Uncertainty(sigma_file=0.3, sigma_speed=0.1)


def works(path: Path | None, *, quick: bool) -> Iterator[Work]:
    """The inputs; PyTorch's class times only where the data is."""
    if path is not None:
        yield inputs.from_class_times(path)
    size = (3_000, 60) if quick else (200_000, 1_200)
    yield inputs.heavy_tail(*size)
    yield inputs.fine_grained(*size)


def measure_packing(work: Work, shards: tuple[int, ...]) -> tuple[list[dict[str, Any]], dict[Any, Plan]]:
    """Makespan with set-ups over the lower bound, ours and each peer's."""
    rows, plans = [], {}
    everybody = peers.peers()
    for setup in SETUPS_S:
        file_s = work.file_s(setup)
        loads = file_loads(work.tests, work.test_s, file_s)
        for count in shards:
            began = time.perf_counter()
            plan = make_plan(work.tests, test_s=work.test_s, file_s=file_s, shards=count)
            took = time.perf_counter() - began
            plans[setup, count] = plan
            bound = lower_bound(loads, count)
            over = {"spyre-ci": plan.makespan_s / bound}
            for name, peer in everybody.items():
                over[name] = peers.makespan(peer(work, file_s, count), work, file_s) / bound
            rows.append(
                {
                    "input": work.name,
                    "setup_s": setup,
                    "shards": count,
                    "bound_s": bound,
                    "binds": plan.binds,
                    "plan_s": took,
                    "over_bound": over,
                }
            )
    return rows, plans


def measure_speed(work: Work, shards: tuple[int, ...], repeat: int) -> list[dict[str, Any]]:
    """Time to plan against pytest-split's, medians of so many repeats, where the peer ends in time."""
    rows = []
    file_s = work.file_s(5.0)
    for count in shards:
        if not peers.fits_pytest_split(work, count):
            continue
        ours = _median(
            partial(make_plan, work.tests, test_s=work.test_s, file_s=file_s, shards=count), repeat
        )
        theirs = {
            name: _median(partial(split, work, file_s, count), repeat)
            for name, split in peers.peers().items()
            if name in {"least_duration", "chunks"}
        }
        ratios = {name: ours / value for name, value in theirs.items()}
        rows.append({"input": work.name, "shards": count, "ours_s": ours, "ratio": ratios})
    return rows


def measure_size(*, quick: bool) -> list[dict[str, Any]]:
    """Packing of 200,000 and 1,000,000 tests onto 2,048 shards, and the ladder."""
    rows = []
    for tests, files in [(2_000, 40)] if quick else [(200_000, 1_200), (1_000_000, 1_200)]:
        work = inputs.heavy_tail(tests, files)
        pack = partial(make_plan, work.tests, test_s=work.test_s, file_s=work.file_s(5.0), shards=2048)
        took = _median(pack, 1)
        rows.append({"what": f"pack {tests:,} tests onto 2,048 shards", "seconds": took})
    for tests in [2_000] if quick else [200_000, 1_000_000]:
        build = partial(build_order, inputs.about_ops(tests))
        rows.append({"what": f"ladder of {tests:,} tests", "seconds": _median(build, 1)})
    return rows


def measure_days(work: Work, plans: dict[Any, Plan], draws: int) -> list[dict[str, Any]]:
    """Makespan over the true bound on days drawn from `DAY`, medians, and share of time cards were busy."""
    rows = []
    for (setup, count), plan in plans.items():
        file_s = work.file_s(setup)
        days = [
            simulate(plan, truth, test_s=work.test_s, file_s=file_s, ways=modes(8).values())
            for seed in range(draws)
            for truth in [
                draw_truth(
                    plan.file_of,
                    count,
                    test_s=work.test_s,
                    file_s=file_s,
                    off=DAY,
                    randomness=random.Random(seed),
                )
            ]
        ]
        over = {
            name: statistics.median(day[number].ratio for day in days) for number, name in enumerate(modes(8))
        }
        busy = statistics.median(day[-1].busy for day in days)
        rows.append({"input": work.name, "setup_s": setup, "shards": count, "over_bound": over, "busy": busy})
    return rows


def measure_long_tests(draws: int) -> list[dict[str, Any]]:
    """Days on which the longest test binds as a rule."""
    work = inputs.heavy_tail(most_s=inputs.LONG_TEST_S)
    plans = {
        (setup, 2048): make_plan(work.tests, test_s=work.test_s, file_s=work.file_s(setup), shards=2048)
        for setup in SETUPS_S
    }
    return measure_days(work, plans, draws)


def _median(act: Callable[[], object], repeat: int) -> float:
    took = []
    for _ in range(repeat):
        gc.collect()
        began = time.perf_counter()
        act()
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Every measurement, as one document."""
    path = inputs.class_times(options.class_seconds)
    found: dict[str, Any] = {"packing": [], "speed": [], "days": [], "skipped": []}
    if path is None:
        found["skipped"].append(f"PyTorch's class times: name them with {inputs.VARIABLE}")
    found["skipped"] += [f"{name}: not installed" for name in peers.missing()]
    shards = QUICK_SHARDS if options.quick else SHARDS
    for number, work in enumerate(works(path, quick=options.quick)):
        print(f"measuring {work.name}: {len(work.tests):,} tests, {work.seconds:,.0f} s", file=sys.stderr)
        rows, plans = measure_packing(work, shards)
        found["packing"] += rows
        found["speed"] += measure_speed(work, shards, 1 if options.quick else 3)
        # Days are promised for the two inputs that resemble a tree.
        if number < (2 if path is not None else 1):
            found["days"] += measure_days(work, plans, options.draws)
    if not options.quick:
        found["days"] += measure_long_tests(options.draws)
    found["size"] = measure_size(quick=options.quick)
    return found


def show(found: dict[str, Any]) -> None:
    """The document as tables."""
    for reason in found["skipped"]:
        print(f"skipped: {reason}")
    names = list(found["packing"][0]["over_bound"])
    print("\nmakespan with set-ups over the lower bound")
    print(f"{'input':<34}{'set-up':>7}{'shards':>7}{'bound':>9}" + "".join(f"{one:>15}" for one in names))
    for row in found["packing"]:
        cells = "".join(f"{row['over_bound'][one]:>15.4f}" for one in names)
        print(_head(row) + f"{row['bound_s']:>8.1f}s{cells}  {row['binds']}, {row['plan_s']:.2f} s")
    print("\ntime to plan over pytest-split's (below 1: faster)")
    for row in found["speed"]:
        cells = "".join(f"  {name} {value:.2f}" for name, value in row["ratio"].items())
        print(f"{row['input']:<34}{row['shards']:>7}{row['ours_s']:>8.2f}s{cells}")
    print("\nsize")
    for row in found["size"]:
        print(f"{row['what']:<44}{row['seconds']:.2f} s")
    print("\ndays on paper: makespan over that day's bound, files off by sigma 0.3, cards by 0.1")
    for row in found["days"]:
        cells = "".join(f"  {name} {value:.3f}" for name, value in row["over_bound"].items())
        print(f"{_head(row)}{cells}  busy {row['busy']:.0%}")


def _head(row: dict[str, Any]) -> str:
    return f"{row['input']:<34}{row['setup_s']:>6.0f}s{row['shards']:>7}"
