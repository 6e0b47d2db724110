"""PyTorch's real wheel and this project in an image, in which the main job runs its op suite."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from junitparser import JUnitXml

from ci.image.container import Conditions, container, follow, take_out
from tests.engine import engine_client, served

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("engine")]

ROOT = Path(__file__).parent.parent.parent
TORCH = "2.13.0"
RUN_S = 1200
# Of the op suite's first stage.
MOST_OF_IT = 250
HOME = "/opt/spyre/home"


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    with engine_client() as made:
        yield made


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A package index with this project's packages, PyTorch among them, as this machine gets them."""
    folder = tmp_path_factory.mktemp("index")
    wanted = [f"{ROOT}[torch]", f"torch=={TORCH}", "setuptools>=77", "wheel"]
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(folder), *wanted],
        check=True,
        timeout=900,
    )
    for path in list(folder.glob("*.whl")):
        below = folder / re.sub(r"[-_.]+", "-", path.name.partition("-")[0]).lower()
        below.mkdir(exist_ok=True)
        path.rename(below / path.name)
    with served(folder) as address:
        yield f"{address}/"


def requirements() -> list[str]:
    """What this project needs, and what PyTorch's tests need of it, as a stack file has it."""
    found = []
    for line in importlib.metadata.requires("spyre-ci") or ():
        name, _, marker = (part.strip() for part in line.partition(";"))
        if (not marker or re.fullmatch(r"extra == ['\"]torch['\"]", marker)) and not name.startswith(
            "torch=="
        ):
            found.append(name)
    return found


@pytest.fixture(scope="module")
def image(client: docker.DockerClient, index: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("stack")
    stack = {
        "version": 1,
        "name": "op-suite",
        "base": {"image": os.environ["TEST_BASE_IMAGE"], "packages": ["python3-venv"]},
        "variants": {"pinned": {"version": TORCH}},
        "components": [
            {
                "name": "spyre-ci",
                "git": {"url": "https://example.com/x.git", "steps": ['pip wheel --no-deps -w "$WHEELS" .']},
                "requirements": requirements(),
            }
        ],
    }
    (folder / "stack.yaml").write_text(json.dumps(stack))
    environ = {"PYTHONPATH": str(ROOT), "PIP_INDEX_URL": index, "PIP_TRUSTED_HOST": "127.0.0.1"}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ci.cli", "image", "build", "--json"),
            *("--stack", str(folder / "stack.yaml"), "--with", f"spyre-ci={ROOT}"),
        ],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    name = str(json.loads(done.stdout)["image"])
    yield name
    client.images.remove(name, force=True)


def test_the_op_suite_runs_in_the_image_and_its_report_comes_out(
    client: docker.DockerClient, image: str, tmp_path: Path
) -> None:
    lines: list[str] = []
    with container(client, image, ["spyre-ci", "pytorch"], Conditions()) as made:
        ended = follow(made, timeout_s=RUN_S, echo=lines.append)
        said = "\n".join(lines[-40:])
        assert take_out(made, f"{HOME}/runs", tmp_path / "runs"), said
    assert (ended.exit_code, ended.timed_out) == (0, False), said
    found = [JUnitXml.fromfile(str(path)) for path in (tmp_path / "runs").glob("*/junit/*.xml")]
    tests = sum(one.tests for one in found)
    assert tests > MOST_OF_IT
    assert sum(one.failures + one.errors for one in found) == 0
    assert f"{tests} tests, nothing failed and nothing is missing" in " ".join(said.split())
