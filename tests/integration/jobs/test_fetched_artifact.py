"""What an init container fetches of MLflow lies where the job looks for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ci.core.commands import run_command
from ci.jobs.job import helpers_of
from tests.job_specs import MLFLOW, job_of, spec_of

LOG = """
import sys, mlflow
with mlflow.start_run() as run:
    mlflow.log_artifacts(sys.argv[1], "models/base")
print(run.info.run_id)
"""


@pytest.mark.nightly
def test_mlflow_puts_an_artifact_where_the_job_finds_it(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}", encoding="utf-8")
    tracking = {"MLFLOW_TRACKING_URI": (tmp_path / "runs").as_uri(), "MLFLOW_ALLOW_FILE_STORE": "true"}
    env = {**os.environ, **tracking, "MLFLOW_DISABLE_TELEMETRY": "true", "GIT_PYTHON_REFRESH": "quiet"}
    run = run_command([sys.executable, "-c", LOG, model], timeout_s=120, env=env, cwd=tmp_path).split()[-1]
    source = {"artifact": {"run": run, "path": "models/base"}}
    (fetch,) = helpers_of(job_of(spec_of("serve", source=source, environment=MLFLOW)))
    mlflow, *words = (word.replace("/scratch", str(tmp_path)) for word in fetch.command)
    run_command([Path(sys.executable).with_name(mlflow), *words], timeout_s=120, env=env, cwd=tmp_path)
    found = Path(fetch.at.replace("/scratch", str(tmp_path)))
    assert [one.name for one in found.iterdir()] == ["config.json"]
