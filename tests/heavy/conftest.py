"""Leaves to the night what the gate does not name, and lends it the fixtures of the integration tests."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest

from tests.calls import free_port, wait_for_server
from tests.engine import engine_client

from . import clean_clone
from . import op_suite_image as op_suite

ROOT = Path(__file__).parent.parent.parent
Call = Callable[..., tuple[int, str, str]]
# What `mlflow` has and `mlflow-skinny` has not.
MISSING = [name for name in ("alembic", "flask", "sqlalchemy") if importlib.util.find_spec(name) is None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("gate") is None:
            item.add_marker(pytest.mark.nightly)


@pytest.fixture(scope="session")
def pytorch_tree() -> Path:
    """A real PyTorch source tree, named by PYTORCH_TREE."""
    named = os.environ.get("PYTORCH_TREE", "")
    if not named or not Path(named, "test").is_dir():
        pytest.skip("a PyTorch source tree (PYTORCH_TREE) is not found")
    return Path(named)


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean clone in which README's first command was run; tests leave its sources as they were."""
    folder = tmp_path_factory.mktemp("clone") / "spyre-ci"
    clean_clone.make_clone(folder)
    return folder


@pytest.fixture(scope="session")
def client() -> Iterator[docker.DockerClient]:
    """The engine of the environment."""
    with engine_client() as made:
        yield made


@pytest.fixture(scope="session")
def op_suite_image(client: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image with PyTorch's real wheel and this project."""
    with op_suite.index(tmp_path_factory.mktemp("index")) as address:
        name = op_suite.build_image(address, tmp_path_factory.mktemp("stack"))
    yield name
    client.images.remove(name, force=True)


@pytest.fixture
def spyre_ci(tmp_path: Path) -> Call:
    """Calls `spyre-ci` in an empty folder and answers with exit code, output and errors."""

    def call(*words: str, timeout_s: float = 1500) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "ci.cli", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
        return done.returncode, done.stdout, done.stderr

    return call


@pytest.fixture
def mlflow_server(tmp_path: Path) -> Iterator[str]:
    """MLflow's own tracking server, its runs in SQLite; its address."""
    if MISSING:
        pytest.skip(f"mlflow's server is not installed: there is no {', '.join(MISSING)}; pip install mlflow")
    port = free_port()
    words = ["--backend-store-uri", f"sqlite:///{tmp_path}/runs.db", "--workers", "1"]
    words += ["--artifacts-destination", f"{tmp_path}/artifacts", "--host", "127.0.0.1"]
    environ = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}
    log = (tmp_path / "log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-m", "mlflow", "server", *words, "--port", str(port)],
        stdout=log,
        stderr=log,
        env=environ,
        start_new_session=True,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for_server(f"{url}/health", process, seconds=120)
        yield url
    finally:
        os.killpg(process.pid, 15)
        process.wait(30)
        log.close()
