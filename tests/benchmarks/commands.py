"""The commands that are measured, each a process of its own, and what a tree to measure on is."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TIMEOUT_S = 1800
WORKERS = 2


def ours(verb: str, *words: str) -> list[str]:
    """A verb of `spyre-ci`, from this checkout."""
    return [sys.executable, "-m", "ci.cli", verb, *words]


def our_environment(**more: str) -> dict[str, str]:
    """The environment in which this checkout is found, and nothing is reported."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "SPYRE_CI__REPORT__ENDPOINT": "none", **more}


def plain_pytest(tests: Path, *words: str) -> list[str]:
    """pytest by itself on a tree's tests, told what the runner tells it."""
    plain = ["-q", "--noconftest", f"-c{os.devnull}", f"--rootdir={tests}", "-p", "no:cacheprovider"]
    return [sys.executable, "-m", "pytest", *plain, *words]


def pytest_environment(*, threads: int | None = None, **more: str) -> dict[str, str]:
    """The environment of plain pytest, with no plugin but those it is told of."""
    held = {} if threads is None else dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    return {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **held, **more}


def timed(argv: Sequence[str], folder: Path, environ: Mapping[str, str]) -> float:
    """Wall seconds of a command; a failed test is no failed measurement, a broken command is."""
    began = time.perf_counter()
    done = subprocess.run(  # our own command
        argv, cwd=folder, env=dict(environ), timeout=TIMEOUT_S, capture_output=True, text=True, check=False
    )
    took = time.perf_counter() - began
    if done.returncode not in (0, 1):
        said = f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
        raise SystemExit(f"{list(argv[:4])} ended with {done.returncode}:\n{said}")
    return took


def show_walls(walls: Mapping[str, Sequence[float]], first: str) -> None:
    """Medians, and what the first is of each; an absolute time says little."""
    medians = {name: statistics.median(row) for name, row in walls.items()}
    for name, median in medians.items():
        compared = "" if name == first else f"   {first} takes {medians[first] / median:.2f} of it"
        print(f"  {name:<40}{median:>8.1f} s{compared}")
    print(f"  load of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
