"""A job's run in a real MLflow tracking server, and what MLflow's own client fetches from it."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from ci.jobs.job import helpers_of
from tests import job_specs
from tests.job_specs import MLFLOW
from tests.tracked import bounded, check_told_from_begin_to_end, job_of, told

# What `mlflow` has and `mlflow-skinny` has not.
MISSING = [name for name in ("alembic", "flask", "sqlalchemy") if importlib.util.find_spec(name) is None]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    if MISSING:
        pytest.skip(f"mlflow's server is not installed: there is no {', '.join(MISSING)}; pip install mlflow")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
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
        _wait_for(f"{url}/health", process, tmp_path / "log")
        yield url
    finally:
        os.killpg(process.pid, 15)
        process.wait(30)
        log.close()


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        assert process.poll() is None, log.read_text()
        try:
            if requests.get(url, timeout=5).ok:
                return
        except requests.ConnectionError:
            time.sleep(0.2)
    pytest.fail(log.read_text())


def test_a_real_server_is_told_from_begin_to_end_and_mlflow_fetches_what_it_was_told(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounded(monkeypatch, server)
    check_told_from_begin_to_end(server, tmp_path)
    # What an init container does: the artifact lies where the job looks for it.
    run, _ = told(server, tmp_path / "told")
    for path, found in (("output", "deep/scores.json"), ("job/configs", "conf/helm.conf")):
        source = {"artifact": {"run": run.info.run_id, "path": path}}
        (fetch,) = helpers_of(job_specs.job_of(job_specs.spec_of("serve", source=source, environment=MLFLOW)))
        here = [word.replace("/scratch", f"{tmp_path}/scratch") for word in fetch.command]
        words = [sys.executable, "-m", *here]
        subprocess.run(words, check=True, timeout=120, capture_output=True)
        # By the last part of its path, whatever stands before it.
        assert Path(fetch.at.replace("/scratch", f"{tmp_path}/scratch"), found).is_file()
        assert run.data.tags["spyre-ci.job"] == job_of().name
