"""A forecast of tests in the numbers that PyTorch's tree has, and of the op suite where there is no run."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ci.steps.forecast import SIZES
from test_selection.forecast import DAY_S, Conditions, Work, forecast, needed
from test_selection.loads import file_loads
from tests.benchmarks.plan_inputs import made_up

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.nightly


@pytest.mark.parametrize(("tests", "files", "limit_s"), [(54_886, 300, 60.0), (200_000, 1_200, 180.0)])
def test_sizes_like_the_trees_are_forecast_in_minutes(tests: int, files: int, limit_s: float) -> None:
    rows, seconds = made_up(tests, files, 1)
    file_s = dict.fromkeys({row.file for row in rows}, 5.0)
    work = Work(tests=rows, test_s=seconds, file_s=file_s, loads=file_loads(rows, seconds, file_s))
    usual = Conditions(queue_s=600, startup_s=60, report_s=60, faults_h=0.0005, repair_h=24)
    began = time.process_time()
    found = [forecast(work, cards, usual, draws=5, randomness=random.Random) for cards in SIZES]
    three = needed(
        work,
        DAY_S / 3,
        usual,
        at=lambda up: forecast(
            work,
            usual.owned(up),
            usual,
            draws=5,
            randomness=random.Random,
        ),
    )
    # Of its own: a machine that is busy with others says nothing of a forecast.
    assert time.process_time() - began < limit_s
    assert [one.makespan(0.9) >= one.bound_s for one in found] == [True] * len(SIZES)
    assert found[0].limited_by == "cards"
    assert three.found is not None
    assert three.found.round_s(0.9) <= 8 * 3600


def test_a_laptop_without_a_run_gets_a_forecast_of_the_op_suite(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "ci.cli", "forecast", "--draws", "2", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)["shares"][-1]
    assert told["tests"] > 5000
    assert told["guessed"] == told["tests"]
    assert "the embedded op suite is forecast instead" in ran.stderr
