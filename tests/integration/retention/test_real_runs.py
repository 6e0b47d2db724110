"""Runs as they really are: a whole one is known to have ended, and one that was only planned is not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent.parent
TIMEOUT_S = 240


def call(folder: Path, *words: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "JENKINS"))}
    more = {
        "PYTHONPATH": str(ROOT),
        "SPYRE_CI__DEVICE__NAME": "cpu",
        "SPYRE_CI__REPORT__ENDPOINT": "none",
        "DOCKER_HOST": f"unix://{folder}/no-engine.sock",
    }
    ended = subprocess.run(
        [sys.executable, "-m", "ci.cli", *words],
        cwd=folder,
        env={**kept, **more},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def prune(folder: Path, *words: str) -> dict[str, Any]:
    none = ("--keep-days", "0", "--keep-last", "0")
    told: dict[str, Any] = json.loads(call(folder, "prune", "--only", "runs", "--json", *none, *words))
    return told


@pytest.mark.nightly
def test_a_real_run_that_ended_goes_and_what_is_latest_or_only_planned_stays(
    tmp_path: Path, tree: Path
) -> None:
    pytorch = ("pytorch", "--pytorch-src", str(tree), "--percent", "100", "--files", "test_devices.py")
    call(tmp_path, *pytorch)
    runs = tmp_path / "runs"
    (ended,) = runs.iterdir()
    older = Path(shutil.copytree(ended, runs / "older"))
    # Younger than either, and never run.
    call(tmp_path, *pytorch, "--dry-run")
    (planned,) = set(runs.iterdir()) - {ended, older}
    for path in older.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    told = prune(tmp_path)
    assert [one["name"] for one in told["removed"]] == ["older"]
    why = {one["name"]: one["why"] for one in told["kept"]}
    assert why[ended.name] == "is what `latest` means for summary.json"
    assert why[planned.name] == "is what `latest` means for run.json"
    assert sorted(runs.iterdir()) == sorted([ended, planned])
    shutil.copytree(planned, runs / "twin")
    os.utime(runs / "twin" / "run.json")
    told = prune(tmp_path, "--dry-run")
    assert "not finished" in {one["name"]: one["why"] for one in told["kept"]}[planned.name]
