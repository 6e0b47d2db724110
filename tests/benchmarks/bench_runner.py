"""The runner beside `pytest -n 2`: the same tests of a real PyTorch tree, on the same two workers, warm.

Run by `nox -s bench` where PYTORCH_TREE names a tree. Walls are said as ratios of medians, for an absolute
time says little; the rounds alternate, so that a machine that slows down slows down both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from ci.device.environment import device_environment  # noqa: E402  # found from here
from ci.runner.journal import read_journals  # noqa: E402
from test_selection.catalog import read_catalog  # noqa: E402
from test_selection.plan import read_plan  # noqa: E402

FILES = (
    "test_view_ops.py", "test_indexing.py", "test_sort_and_select.py", "test_type_promotion.py",
    "test_shape_ops.py", "test_scatter_gather_ops.py", "test_reductions.py", "test_unary_ufuncs.py",
    "test_tensor_creation_ops.py", "test_modules.py",
)  # fmt: skip
TIMEOUT_S = 1800
WORKERS = 2


class Bench:
    """A folder with settings, history and runs of its own."""

    def __init__(self, tree: Path, folder: Path, percent: float) -> None:
        self.tree, self.folder, self.percent = tree, folder, percent

    def ours(self) -> tuple[float, Path]:
        """Seconds of the whole job, and its run folder."""
        argv = [sys.executable, "-m", "ci.cli", "pytorch", "--pytorch-src", str(self.tree), "--device", "cpu"]
        argv += ["--cards", str(WORKERS), "--percent", str(self.percent), "--files", ",".join(FILES)]
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "SPYRE_CI__REPORT__ENDPOINT": "none"}
        took = timed([*argv, "--allow-collect-errors"], self.folder, environ)
        return took, max((self.folder / "runs").iterdir())

    def pytest(self, nodes: Sequence[str], environ: Mapping[str, str]) -> float:
        """Seconds of `pytest -n 2` on the same tests."""
        named = self.folder / "nodes.txt"
        named.write_text("\n".join(nodes), encoding="utf-8")
        argv = [sys.executable, "-m", "pytest", "-q", "-n", str(WORKERS), "--noconftest", f"-c{os.devnull}"]
        argv += [f"--rootdir={self.tree / 'test'}", "-p", "no:cacheprovider", "-p", "xdist", f"@{named}"]
        return timed(argv, self.tree / "test", environ)


def timed(argv: Sequence[str], folder: Path, environ: Mapping[str, str]) -> float:
    """Wall seconds of a command; a failed test is no failed measurement, a broken command is."""
    began = time.perf_counter()
    done = subprocess.run(  # our own command
        argv, cwd=folder, env=dict(environ), timeout=TIMEOUT_S, capture_output=True, text=True, check=False
    )
    took = time.perf_counter() - began
    if done.returncode not in (0, 1):
        raise SystemExit(
            f"{argv[:4]} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return took


def nodes_of(run: Path) -> list[str]:
    """pytest's own names of the tests a run planned."""
    node = {test.id: test.node for test in read_catalog(run / "catalog.jsonl.gz").tests}
    return [node[name] for name in read_plan(run / "plan.json").ids]


def set_ups(run: Path) -> dict[str, list[float]]:
    """Seconds of each time a file was set up."""
    found: dict[str, list[float]] = {}
    for journal in read_journals(run):
        for event in journal.events:
            if event["e"] == "group_ready":
                found.setdefault(event["file"], []).append(event["setup_s"])
    return found


def measure(tree: Path, rounds: int, percent: float) -> dict[str, Any]:
    """Walls of each, by round, after one that warms catalog, durations and the page cache."""
    plain = {**os.environ, **device_environment("cpu"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    one = {**plain, **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")}
    walls: dict[str, list[float]] = {"spyre-ci": [], "pytest -n 2, one thread": [], "pytest -n 2": []}
    with tempfile.TemporaryDirectory(prefix="spyre-ci-bench-") as name:
        bench = Bench(tree, Path(name), percent)
        _, run = bench.ours()
        nodes = nodes_of(run)
        for number in range(rounds):
            took, run = bench.ours()
            walls["spyre-ci"].append(took)
            walls["pytest -n 2, one thread"].append(bench.pytest(nodes, one))
            walls["pytest -n 2"].append(bench.pytest(nodes, plain))
            print(
                f"round {number + 1}: " + ", ".join(f"{k} {v[-1]:.1f} s" for k, v in walls.items()),
                flush=True,
            )
        return {"tests": len(nodes), "walls_s": walls, "set_up_s": set_ups(run)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--percent", type=float, default=5.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    tree = os.environ.get("PYTORCH_TREE", "")
    if not tree:
        print("skipped: PYTORCH_TREE names no PyTorch tree")
        return
    found = measure(Path(tree), options.rounds, options.percent)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    medians = {name: statistics.median(walls) for name, walls in found["walls_s"].items()}
    print(f"{found['tests']:,} tests of {len(FILES)} files on {WORKERS} workers, medians of {options.rounds}")
    for name, median in medians.items():
        print(f"  {name:28} {median:7.1f} s   spyre-ci takes {medians['spyre-ci'] / median:.2f} of it")
    for file, seconds in sorted(found["set_up_s"].items()):
        print(f"  set-up of {file:32} {len(seconds)} x {statistics.median(seconds):.2f} s")


if __name__ == "__main__":
    main()
