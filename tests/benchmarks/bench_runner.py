"""The runner beside `pytest -n 2`: the same tests of a real PyTorch tree, on the same two workers, warm.

Walls are said as ratios of medians, for an absolute time says little; the rounds alternate, so that a machine
that slows down slows down both, and each round another begins, who may find cold memory, where a virtual
machine has given it back to its host.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ci.device.environment import device_environment
from ci.record.journal import read_journals
from test_selection.catalog import read_catalog
from test_selection.plan import read_plan
from tests.benchmarks.commands import (
    ROOT,
    WORKERS,
    our_environment,
    ours,
    plain_pytest,
    pytest_environment,
    show_walls,
    timed,
)
from tests.benchmarks.journal_clock.sitecustomize import SHAPE
from tests.journal_rows import rows_of

FILES = (
    "test_view_ops.py", "test_indexing.py", "test_sort_and_select.py", "test_type_promotion.py",
    "test_shape_ops.py", "test_scatter_gather_ops.py", "test_reductions.py", "test_unary_ufuncs.py",
    "test_tensor_creation_ops.py", "test_modules.py",
)  # fmt: skip
OURS, ONE_THREAD, AS_IT_COMES = "spyre-ci", f"pytest -n {WORKERS}, one thread", f"pytest -n {WORKERS}"
CLOCK = Path(__file__).with_name("journal_clock")
JOURNAL_BAR = 0.02


class Bench:
    """A folder with settings, history and runs of its own."""

    def __init__(self, tree: Path, folder: Path, *, percent: float, files: Sequence[str]) -> None:
        self.tree, self.folder, self._percent, self.files = tree, folder, percent, files
        self._tests = tree / "test"

    def ours(self, environ: Mapping[str, str] | None = None) -> tuple[float, Path]:
        """Seconds of the whole job, and its run folder."""
        words = ["--pytorch-src", str(self.tree), "--device", "cpu", "--cards", str(WORKERS)]
        words += ["--percent", str(self._percent), "--files", ",".join(self.files), "--allow-collect-errors"]
        took = timed(ours("pytorch", *words), self.folder, environ or our_environment())
        return took, max((self.folder / "runs").iterdir())

    def pytest(self, nodes: Sequence[str], *, threads: int | None) -> float:
        """Seconds of `pytest -n 2` on the same tests."""
        named = self.folder / "nodes.txt"
        named.write_text("\n".join(nodes), encoding="utf-8")
        argv = plain_pytest(self._tests, "-p", "xdist", "-n", str(WORKERS), f"@{named}")
        return timed(argv, self._tests, pytest_environment(threads=threads, **device_environment("cpu")))

    def fresh_set_up(self, file: str) -> float:
        """Seconds to import and collect a file in a process of its own, torch's import included."""
        argv = plain_pytest(self._tests, "--collect-only", "-q", file)
        return timed(argv, self._tests, pytest_environment(threads=1, **device_environment("cpu")))

    def clocked(self) -> tuple[Path, dict[str, Any]]:
        """A run that notes what its journals cost: its folder, and what that was of the time it worked."""
        noted = self.folder / "clock"
        noted.mkdir()
        path = os.pathsep.join([str(CLOCK), str(ROOT)])
        _, run = self.ours(our_environment(PYTHONPATH=path, JOURNAL_CLOCK=str(noted)))
        rows = [SHAPE.unpack(one.read_bytes()) for one in noted.iterdir() if one.stat().st_size == SHAPE.size]
        write_s, writes, sync_s = (sum(row[place] for row in rows) for place in range(3))
        busy_s = busy_seconds(run)
        return run, {
            "writes": int(writes),
            "write_s": write_s,
            "sync_s": sync_s,
            "busy_s": busy_s,
            "share": write_s / busy_s,
        }


def nodes_of(run: Path) -> list[str]:
    """pytest's own names of the tests a run planned."""
    node = {test.id: test.node for test in read_catalog(run / "catalog.jsonl.gz").tests}
    return [node[name] for name in read_plan(run / "plan.json").ids]


def _events(run: Path, kind: str) -> Iterable[dict[str, Any]]:
    return (
        event for journal in read_journals(run) for event in rows_of(journal.events) if event["e"] == kind
    )


def busy_seconds(run: Path) -> float:
    """What the tests and set-ups of a run took, over all its workers."""
    tests = sum(event["seconds"] for event in _events(run, "end"))
    return float(tests + sum(event["setup_s"] for event in _events(run, "group_ready")))


def set_ups(runs: Iterable[Path]) -> dict[str, list[float]]:
    """Seconds of each time a file was set up."""
    found: dict[str, list[float]] = {}
    for run in runs:
        for event in _events(run, "group_ready"):
            found.setdefault(event["file"], []).append(event["setup_s"])
    return found


def measure(
    tree: Path, *, rounds: int, percent: float, files: Sequence[str], walls: bool = True, journal: bool = True
) -> dict[str, Any]:
    """The journal's share of a first run, which warms catalog, durations and the page cache; then the rounds.

    Args:
        tree: PyTorch's source.
        rounds: how many.
        percent: how much of the files' tests.
        files: test files.
        walls: whether to measure the walls, and each file's set-up.
        journal: whether to measure the journals' share.
    """
    with tempfile.TemporaryDirectory(prefix="spyre-ci-bench-") as name:
        bench = Bench(tree, Path(name), percent=percent, files=files)
        run, cost = bench.clocked() if journal else (bench.ours()[1], None)
        nodes = nodes_of(run)
        found: dict[str, Any] = {"tests": len(nodes), "files": len(files)}
        if cost is not None:
            found["journal"] = cost
        if walls:
            found |= _rounds(bench, nodes, rounds)
        return found | {"load": os.getloadavg()[0]}


def _rounds(bench: Bench, nodes: Sequence[str], rounds: int) -> dict[str, Any]:
    walls: dict[str, list[float]] = {OURS: [], ONE_THREAD: [], AS_IT_COMES: []}
    fresh: dict[str, list[float]] = {file: [] for file in bench.files}
    runs = []

    def one_of_ours() -> float:
        took, run = bench.ours()
        runs.append(run)
        return took

    contenders: dict[str, Callable[[], float]] = {
        OURS: one_of_ours,
        ONE_THREAD: lambda: bench.pytest(nodes, threads=1),
        AS_IT_COMES: lambda: bench.pytest(nodes, threads=None),
    }
    for number in range(rounds):
        first = number % len(contenders)
        for name in [*contenders][first:] + [*contenders][:first]:
            walls[name].append(contenders[name]())
        for file, row in fresh.items():
            row.append(bench.fresh_set_up(file))
        told = ", ".join(f"{what} {row[-1]:.1f} s" for what, row in walls.items())
        print(f"runner, round {number + 1}: {told}", file=sys.stderr, flush=True)
    after = set_ups(runs)
    return {
        "walls_s": walls,
        "set_up_s": {file: {"before": row, "after": after.get(file, [])} for file, row in fresh.items()},
    }


def show(found: dict[str, Any]) -> None:
    """The document as tables."""
    print(f"\n{found['tests']:,} tests of {found['files']} files on {WORKERS} workers, medians")
    if "walls_s" in found:
        show_walls(found["walls_s"], OURS)
        _show_set_ups(found["set_up_s"])
    if "journal" in found:
        cost = found["journal"]
        print(f"\njournals: {cost['writes']:,} events in {cost['write_s']:.2f} s", end="")
        print(f" of {cost['busy_s']:.1f} s at work: {cost['share']:.2%} (bar: {JOURNAL_BAR:.0%})", end="")
        print(f"; beside the tests, {cost['sync_s']:.2f} s of syncing")


def _show_set_ups(rows: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    """Each file's set-up in a fresh process and in one of the runner's."""
    print(f"\n{'set-up of a file, seconds':<34}{'fresh process':>14}{'runner':>9}{'of it':>7}")
    sums = [0.0, 0.0]
    for file, row in sorted(rows.items()):
        if not row["after"]:
            print(f"  {file:<32}{statistics.median(row['before']):>14.2f}{'none':>9}")
            continue
        before, after = (statistics.median(row[one]) for one in ("before", "after"))
        sums = [sums[0] + before, sums[1] + after]
        print(f"  {file:<32}{before:>14.2f}{after:>9.2f}{after / before:>7.2f}")
    if sums[0]:
        print(f"  {'all of them':<32}{sums[0]:>14.2f}{sums[1]:>9.2f}{sums[1] / sums[0]:>7.2f}")
