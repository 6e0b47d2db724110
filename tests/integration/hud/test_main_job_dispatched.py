"""The main job as the relay's dispatch starts it in a GitHub job, against stand-ins for both."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import IDENTITY
from .desk import BEGUN, Desk

ROOT = Path(__file__).parent.parent.parent.parent


Job = Callable[..., tuple[int, str]]


@pytest.fixture
def job(desk: Desk, tree: Path, github: Any) -> Job:
    """Run `spyre-ci pytorch …` in a GitHub job, and give its exit code and what it printed."""
    desk.dispatch(IDENTITY)
    desk.mint(github, "minted-token", "minted-token")
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("GITHUB_", "JENKINS"))}
    environ = plain | desk.environ | {
        "PYTHONPATH": str(ROOT),
        "SPYRE_CI__DEVICE__NAME": "cpu",
        "SPYRE_CI__REPORT__ENDPOINT": desk.relay.url,
        "GITHUB_ACTIONS": "true",
        "GITHUB_RUN_ID": "987",
    }  # fmt: skip

    def run(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "ci.cli", "pytorch", "--pytorch-src", str(tree), *words],
            cwd=desk.folder,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            timeout=240,
            check=False,
            text=True,
        )
        return done.returncode, done.stdout

    return run


@pytest.mark.nightly
def test_a_job_that_finds_nothing_to_run_tells_its_end_as_a_failure(desk: Desk, job: Job) -> None:
    desk.answers(BEGUN, "ok")
    code, said = job("--percent", "100", "--files", "test_devices.py", "-k", "no_test_is_called_so")
    assert code not in {0, 1}, said
    begun, ended = desk.jobs
    assert (begun["status"], ended["status"], ended["conclusion"]) == ("in_progress", "completed", "failure")
    assert ended["test_results"]["total"] == 0


@pytest.mark.nightly
def test_a_dry_run_tells_nothing(desk: Desk, job: Job) -> None:
    code, said = job("--percent", "100", "--files", "test_devices.py", "--dry-run")
    assert code == 0, said
    assert desk.paths == []
