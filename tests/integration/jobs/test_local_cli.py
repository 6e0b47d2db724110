"""`spyre-ci job local`, as a user calls it."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import docker
import pytest

from ci.image.container import LABEL

ROOT = Path(__file__).parent.parent.parent.parent


def write_spec(folder: Path, script: str) -> Path:
    spec = {
        "version": 1,
        "kind": "evaluation",
        "name": f"x{secrets.token_hex(4)}",
        "image": {"name": os.environ["TEST_BASE_IMAGE"]},
        "store": {"volume": "results"},
        "evaluation": {"command": ["/bin/sh", "-c", script, "sh", "{configs}"], "configs": ["a.yaml"]},
    }
    (folder / "a.yaml").write_text("a: 1\n")
    (folder / "spec.json").write_text(json.dumps(spec))
    return folder / "spec.json"


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ci.cli", "job", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def left(client: docker.DockerClient, spec: Path) -> list[str]:
    name = json.loads(spec.read_text())["name"]
    found = client.api.containers(all=True, filters={"label": f"{LABEL}.job"})
    return [one["Id"] for one in found if one["Labels"][f"{LABEL}.job"].startswith(name)]


def test_a_spec_runs_and_its_code_is_the_jobs(tmp_path: Path, client: docker.DockerClient) -> None:
    spec = write_spec(tmp_path, 'cat "$1/a.yaml"; echo "$PARAM_SIZE" > /results/size; exit 1')
    words = ("local", "spec.json", "--param", "SIZE=7", "--network", "none", "--results", "out")
    process = start(tmp_path, *words)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 1, said
    assert "[0] a: 1\n" in said
    assert f"pod 0: ended with code 1\nwhat they left is in {tmp_path / 'out'}" in said
    assert (tmp_path / "out" / "size").read_text() == "7\n"
    assert left(client, spec) == []


@pytest.mark.nightly
def test_ctrl_c_ends_it_with_130_and_leaves_nothing(tmp_path: Path, client: docker.DockerClient) -> None:
    spec = write_spec(tmp_path, 'trap "exit 3" TERM; touch /results/up; while :; do sleep 0.1; done')
    process = start(tmp_path, "local", "spec.json", "--network", "none", "--results", "out")
    with process:
        for _ in range(600):
            if (tmp_path / "out" / "up").exists():
                break
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert left(client, spec) == []
    (work,) = (tmp_path / ".spyre-ci" / "jobs").glob("*/work")
    assert list(work.iterdir()) == []
