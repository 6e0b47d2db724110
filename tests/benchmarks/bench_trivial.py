"""So many tests that do nothing, by the whole runner and by plain pytest: what a test costs by itself."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.commands import (
    WORKERS,
    our_environment,
    ours,
    plain_pytest,
    pytest_environment,
    show_walls,
    timed,
)

RUN, JOB = f"spyre-ci run, {WORKERS} workers", f"spyre-ci pytorch, {WORKERS} workers"
PLAIN, PLAIN_TWO = "pytest", f"pytest -n {WORKERS}"
BAR, BAR_MIB = 0.7, 240
# The supervisor says itself how much memory it had at most; what its children had is not in it.
SUPERVISOR = """
import atexit, re, sys
from pathlib import Path

def note(target=Path(sys.argv.pop(1))):
    status = Path("/proc/self/status")
    if status.is_file():
        target.write_text(re.search(r"VmHWM:\\s*(\\d+) kB", status.read_text())[1])

atexit.register(note)
from ci.cli import main
main()
"""


def write_tree(folder: Path, files: int, tests: int) -> Path:
    """A tree of `files` files of `tests` tests, half of them in a class of unittest's."""
    (folder / "test").mkdir(parents=True)
    (folder / "version.txt").write_text("2.13.0a0\n", encoding="ascii")
    in_class = "".join(f"    def test_{n}(self):\n        pass\n\n" for n in range(tests // 2))
    plain = "".join(f"\ndef test_plain_{n}():\n    pass\n\n" for n in range(tests - tests // 2))
    held = f"class TestTrivial(unittest.TestCase):\n{in_class or '    pass'}\n"
    for number in range(files):
        path = folder / "test" / f"test_trivial_{number:03}.py"
        path.write_text(f"import unittest\n\n\n{held}{plain}", encoding="ascii")
    return folder


class Bench:
    """A folder with a tree of trivial tests, and the plan and durations of a first run of it."""

    def __init__(self, folder: Path, files: int, tests: int) -> None:
        self.tree, self.folder = write_tree(folder / "tree", files, tests), folder
        self._where = ["--pytorch-src", str(self.tree), "--device", "cpu", "--cards", str(WORKERS)]
        self._environ = our_environment()
        self.job()  # warms catalog, durations and what pytest compiles
        (self._first,) = (folder / "runs").iterdir()
        self._peaks: list[float] = []

    def job(self) -> float:
        """Seconds of everything: collect, select, plan, run, report."""
        return timed(ours("pytorch", *self._where, "--percent", "100"), self.folder, self._environ)

    def run(self) -> float:
        """Seconds of the runner alone, from a plan to the account of its shards."""
        target = self.folder / "run"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for name in ("plan.json", "durations.json.gz"):
            shutil.copy(self._first / name, target)
        note = self.folder / "peak"
        argv = [sys.executable, "-c", SUPERVISOR, str(note), "run", "--run-dir", str(target), *self._where]
        took = timed(argv, self.folder, self._environ)
        if note.exists():
            self._peaks.append(int(note.read_text(encoding="ascii")) / 1024)
        return took

    @property
    def peak_mib(self) -> float | None:
        """The most memory the supervisor ever had, in MiB; None where the system does not tell."""
        return max(self._peaks, default=None)

    def pytest(self, *words: str) -> float:
        """Seconds of pytest."""
        tests = self.tree / "test"
        return timed(plain_pytest(tests, *words, str(tests)), tests, pytest_environment())


def measure(*, files: int, tests: int, rounds: int) -> dict[str, Any]:
    """Walls of each, by round, and the supervisor's memory; the rounds alternate."""
    walls: dict[str, list[float]] = {name: [] for name in (RUN, PLAIN, PLAIN_TWO, JOB)}
    with tempfile.TemporaryDirectory(prefix="spyre-ci-bench-") as name:
        bench = Bench(Path(name), files, tests)
        for number in range(rounds):
            walls[RUN].append(bench.run())
            walls[PLAIN].append(bench.pytest())
            walls[PLAIN_TWO].append(bench.pytest("-p", "xdist", "-n", str(WORKERS)))
            walls[JOB].append(bench.job())
            told = ", ".join(f"{what} {row[-1]:.1f} s" for what, row in walls.items())
            print(f"trivial, round {number + 1}: {told}", file=sys.stderr, flush=True)
    return {
        "tests": files * tests,
        "files": files,
        "walls_s": walls,
        "ratio": statistics.median(walls[RUN]) / statistics.median(walls[PLAIN]),
        "peak_mib": bench.peak_mib,
        "load": os.getloadavg()[0],
    }


def show(found: dict[str, Any]) -> None:
    """The document as a table."""
    print(f"\n{found['tests']:,} tests that do nothing, in {found['files']} files, medians")
    show_walls(found["walls_s"], RUN)
    print(f"  {RUN}: {found['ratio']:.2f} of plain pytest's time (bar: {BAR})")
    if found["peak_mib"] is not None:
        print(
            f"  the supervisor had {found['peak_mib']:.0f} MiB at most, its account included (bar: {BAR_MIB})"
        )
