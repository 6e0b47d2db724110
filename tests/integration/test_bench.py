"""The benchmarks work at all: quick mode, as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parent.parent.parent
BENCH = ROOT / "tests" / "benchmarks" / "bench.py"


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name != "SPYRE_CI_BENCH_CLASS_SECONDS"}
    return subprocess.run(
        [sys.executable, str(BENCH), "--quick", *words],
        env={**environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )


def test_the_quick_benchmark_measures_everything(tmp_path: Path) -> None:
    times = {"conf": {f"test_{n}": {"TestA": 20.0 * n, "TestB": 3.0} for n in range(1, 9)}}
    path = tmp_path / "times.json"
    path.write_text(json.dumps(times), encoding="utf-8")
    found = json.loads(bench("--json", "--class-seconds", str(path)).stdout)
    assert {row["input"] for row in found["packing"]} == {
        "conf",
        "heavy tail, 3,000 tests",
        "no test binds, 3,000 tests",
    }
    for row in found["packing"]:
        assert row["over_bound"]["spyre-ci"] >= 1 - 1e-9
        # No peer beats the bound: what is compared is the same thing.
        assert min(row["over_bound"].values()) >= 1 - 1e-9
    assert found["days"]
    assert found["size"]


def test_the_tables_say_what_was_skipped() -> None:
    said = bench().stdout
    assert "skipped: PyTorch's class times" in said
    assert "makespan with set-ups over the plain lower bound" in said
    assert "makespan with set-ups over the bound the plan writes down" in said
    assert "days on paper" in said
