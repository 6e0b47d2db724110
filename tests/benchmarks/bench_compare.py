"""Two runs of 200,000 tests compared, in a process of its own whose time and memory it is that count."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from ci.record.result import Result
from ci.record.verdict import Verdict
from tests.unit.report.compare.making import add_catalog, write_run

ROOT = Path(__file__).parent.parent.parent
TIMEOUT_S = 600
FILES, CARDS = 300, 24
RATIO, SLOWED = 1.3, 5
# What the verb took, and the most memory it had at once.
COMPARE = """
import json, sys, time
from ci.cli.app import run
from tests.peak import peak_bytes
began = time.perf_counter()
code = run(["compare", "base", "now", "--json", "--limit", "5", "--html", "page.html"])
took = time.perf_counter() - began
with open("took.json", "w") as stream:
    json.dump({"code": code, "seconds": took, "mib": peak_bytes() / 2**20}, stream)
"""


def measure(tests: int) -> dict[str, Any]:
    """Everything, in a folder that is removed."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        for seed, run in enumerate(("base", "now")):
            results = _results(tests, seed)
            add_catalog(write_run(home / "runs" / run, results), [one.id for one in results])
        done = subprocess.run(
            [sys.executable, "-c", COMPARE],
            cwd=home, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=TIMEOUT_S,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        found: dict[str, Any] = json.loads((home / "took.json").read_text(encoding="utf-8"))
        document = json.loads(done.stdout)
    times = document["times"]
    return {
        **found,
        "tests": tests,
        "counted": sum(document["counts"].values()),
        "ratio": times["ratio"],
        "slower": times["slower"]["count"],
        "faster": times["faster"]["count"],
    }


def show(found: dict[str, Any]) -> None:
    """What `measure` found, as lines."""
    print(f"two runs of {found['tests']:,} tests compared: {found['seconds']:.1f} s, {found['mib']:.0f} MiB")
    said = f"{found['slower']} slower of {SLOWED} that are, {found['faster']} faster of none"
    print(f"  the whole run {found['ratio']:.2f} times as long (made {RATIO}), {said}")


def _results(tests: int, seed: int) -> list[Result]:
    """Tests of which one in a hundred fails, each run by itself; some long ones are slower in the second."""
    rng = random.Random(seed)  # made-up runs, no secret
    lengths = random.Random(-1)
    made = []
    for number in range(tests):
        seconds = math.exp(lengths.gauss(-2.5, 1.5))
        slowed = seed == 1 and number % (tests // SLOWED) == 0
        seconds = max(seconds, 2.0) if number % (tests // SLOWED) == 0 else seconds
        noise = math.exp(rng.gauss(0, 0.1)) * (RATIO if seed else 1) * (5 if slowed else 1)
        file = f"test_{number % FILES}.py"
        failed = not slowed and rng.random() < 0.01  # one in a hundred
        made.append(
            Result(
                id=f"{file}::TestCommon::test_{number // FILES}[dtype=float32,op=linalg_{number % 700}]",
                verdict=Verdict.FAILED if failed else Verdict.PASSED,
                seconds=seconds * noise,
                card=f"0000:{number % CARDS:02x}:00.0",
                file=file,
                message="tensors are not close" if failed else "",
            )
        )
    return made
