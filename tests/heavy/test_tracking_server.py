"""A job's run in a real MLflow tracking server, and what MLflow's own client fetches from it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ci.jobs.job import helpers_of
from tests import job_specs
from tests.job_specs import MLFLOW
from tests.tracked import bounded, check_told_from_begin_to_end, job_of, told


def test_a_real_server_is_told_from_begin_to_end_and_mlflow_fetches_what_it_was_told(
    tmp_path: Path, mlflow_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounded(monkeypatch, mlflow_server)
    check_told_from_begin_to_end(mlflow_server, tmp_path)
    # What an init container does: the artifact lies where the job looks for it.
    run, _ = told(mlflow_server, tmp_path / "told")
    for path, found in (("output", "deep/scores.json"), ("job/configs", "conf/helm.conf")):
        source = {"artifact": {"run": run.info.run_id, "path": path}}
        (fetch,) = helpers_of(job_specs.job_of(job_specs.spec_of("serve", source=source, environment=MLFLOW)))
        here = [word.replace("/scratch", f"{tmp_path}/scratch") for word in fetch.command]
        words = [sys.executable, "-m", *here]
        subprocess.run(words, check=True, timeout=120, capture_output=True)
        # By the last part of its path, whatever stands before it.
        assert Path(fetch.at.replace("/scratch", f"{tmp_path}/scratch"), found).is_file()
        assert run.data.tags["spyre-ci.job"] == job_of().name
