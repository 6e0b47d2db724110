"""What is ours alone of a part of the benchmark, without the peers, as JSON: for `beside.py`.

It measures the checkout that it is called in, so that one script measures two:

    python tests/benchmarks/beside.py ../before . $PWD/tests/benchmarks/ours.py trivial
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, os.fspath(Path.cwd()))

ROWS, FILES, TESTS = 1_000_000, 100, 1_000
SHARDS = (24, 512, 2048)
DAYS = 9


def rows() -> dict[str, Any]:
    """Seconds to take rows of tests in, with SQLite's and ClickHouse's own way beside."""
    from tests.benchmarks import bench_hud_rows  # noqa: PLC0415  # of the checkout

    return bench_hud_rows.measure(rows=ROWS, rounds=1)


def trivial() -> dict[str, Any]:
    """Seconds of empty tests by the runner and by the whole job, and the supervisor's memory."""
    from tests.benchmarks.bench_trivial import Bench  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="spyre-ci-bench-") as name:
        bench = Bench(Path(name), FILES, TESTS)
        return {"run_s": bench.run(), "job_s": bench.job(), "peak_mib": bench.peak_mib}


def runner() -> dict[str, Any]:
    """Seconds of the job on files of PyTorch's tree, after one that warms up, and what its journals cost."""
    from tests.benchmarks import bench_runner  # noqa: PLC0415

    # Warming up takes longer than what is measured, so the folder stays for the next turn.
    place = Path(tempfile.gettempdir(), f"spyre-ci-runner-{Path.cwd().name}")
    tree = Path(os.environ["PYTORCH_TREE"]).resolve()
    bench = bench_runner.Bench(tree, place, percent=5.0, files=bench_runner.FILES)
    if not place.exists():
        place.mkdir()
        bench.ours()
    took, run = bench.ours()
    _, journal = bench.clocked()
    shutil.rmtree(place / "clock")
    tests = len(bench_runner.nodes_of(run))
    return {"wall_s": took, "journal": journal, "tests": tests}


def planner() -> dict[str, Any]:
    """Makespans over the bound as planned, and seconds to plan."""
    bench, works = _planning()
    found: dict[str, Any] = {"over_bound": {}, "seconds": {}}
    for work in works:
        for row in bench.measure_packing(work, SHARDS)[0]:
            found["over_bound"][_name(row)] = row["over_bound"]["spyre-ci"]
            found["seconds"][_name(row)] = row["plan_s"]
    for row in bench.measure_size(quick=False):
        found["seconds"][row["what"]] = row["seconds"]
    return found


def days() -> dict[str, Any]:
    """Makespans over the bound on drawn days, without and with stealing, and how busy cards are then.

    The draws are always the same, so one turn says all.
    """
    bench, works = _planning()
    found = {}
    for work in islice(works, 2):  # as bench.py
        for row in bench.measure_days(work, bench.measure_packing(work, SHARDS)[1], DAYS):
            found[_name(row)] = [*row["over_bound"].values(), row["busy"]]
    return found


def _planning() -> tuple[Any, Any]:
    """The planner's benchmark without peers, and what it plans."""
    from tests.benchmarks import bench_planner, inputs, peers  # noqa: PLC0415

    peers.peers = dict
    return bench_planner, bench_planner.works(inputs.class_times(None), quick=False)


def _name(row: dict[str, Any]) -> str:
    return f"{row['input']}, {row['setup_s']:.0f} s of set-up, {row['shards']} shards"


PARTS = {"rows": rows, "trivial": trivial, "runner": runner, "planner": planner, "days": days}


def main() -> None:
    """Measure, and print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    print(json.dumps(PARTS[parser.parse_args().part]()))


if __name__ == "__main__":
    main()
