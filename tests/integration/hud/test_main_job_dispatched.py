"""The main job as the relay's dispatch starts it in a GitHub job, against stand-ins for both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .desk import BEGUN, CLIENT_PAYLOAD

ROOT = Path(__file__).parent.parent.parent.parent


@pytest.fixture
def job(tmp_path: Path, tree: Path, faulty: Any, github: Any) -> Any:
    """Run `spyre-ci pytorch …` in it, and give its exit code and what it printed."""
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"action": "pull_request", "client_payload": CLIENT_PAYLOAD}))
    github.otherwise = (200, {}, '{"value": "minted-token"}')
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "JENKINS"))},
        "PYTHONPATH": str(ROOT),
        "SPYRE_CI__DEVICE__NAME": "cpu",
        "SPYRE_CI__REPORT__ENDPOINT": faulty.url,
        "SPYRE_CI_CHECK_RUN_ID": "53211",
        "GITHUB_ACTIONS": "true",
        "GITHUB_RUN_ID": "987",
        "GITHUB_RUN_ATTEMPT": "2",
        "GITHUB_WORKFLOW": "upstream pull request",
        "GITHUB_JOB": "pytorch",
        "GITHUB_EVENT_NAME": "repository_dispatch",
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "ACTIONS_ID_TOKEN_REQUEST_URL": f"{github.url}/token?api-version=2.0",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "asking-token",
    }

    def run(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "ci.cli", "pytorch", "--pytorch-src", str(tree), *words],
            cwd=tmp_path,
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


def workflows(faulty: Any) -> list[dict[str, Any]]:
    return [json.loads(request["body"])["workflow"] for request in faulty.requests]


@pytest.mark.nightly
def test_a_job_that_finds_nothing_to_run_tells_its_end_as_a_failure(job: Any, faulty: Any) -> None:
    faulty.script = [BEGUN, "ok"]
    code, said = job("--percent", "100", "--files", "test_devices.py", "-k", "no_test_is_called_so")
    assert code not in {0, 1}, said
    begun, ended = workflows(faulty)
    assert (begun["status"], ended["status"], ended["conclusion"]) == ("in_progress", "completed", "failure")
    assert ended["test_results"]["total"] == 0


@pytest.mark.nightly
def test_a_dry_run_tells_nothing(job: Any, faulty: Any) -> None:
    code, said = job("--percent", "100", "--files", "test_devices.py", "--dry-run")
    assert code == 0, said
    assert faulty.requests == []
