"""What tests of tracking share: a job to be tracked, and what a server was told of it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ci.jobs.job import Job
from ci.jobs.spec import Spec
from ci.jobs.tracking import Tracker

SECRET = "hf_never_shown"
SPEC = b"version: 1\n"
IMAGE = "registry.example:5000/team/evals:1.2@sha256:" + "ab" * 32


def job_of(**more: Any) -> Job:
    """An evaluation with a configuration, parameters, a secret among them, and tags."""
    spec = {
        "version": 1,
        "kind": "evaluation",
        "image": {"name": IMAGE},
        "resources": {"cards": 2, "tier": 1},
        "parameters": {"SHOTS": 5, "FAST": True, "TOKEN": {"secret": "hf", "key": "token"}},
        "environment": {"HF_TOKEN": {"secret": "hf", "key": "token"}, "MLFLOW_TRACKING_URI": "http://mlflow"},
        "tags": {"team": "kernels", "example.com/why": "nightly"},
        "source": {"bucket": "s3://models/granite"},
        "evaluation": {"command": ["evals", "{configs}/helm.conf"], "configs": ["conf/helm.conf"]},
        "store": {"volume": "results"},
        "tracking": {"experiment": "granite/nightly", "output": "output"},
    } | more
    return Job(
        spec=Spec.model_validate(spec),
        name="evaluation-brave-otter-01234",
        run="20261123-021500-abcd",
        image=IMAGE,
        namespace="team",
        pods=1,
        deadline_s=3600,
        commit="c" * 40,
        files={"conf/helm.conf": b"entries: []\n"},
    )


@dataclass
class Tracked:
    """A job's tracker in a folder, and the lines it said."""

    folder: Path
    lines: list[str] = field(default_factory=list)
    _times: Any = field(default_factory=lambda: count(1_800_000_000))

    @property
    def tracker(self) -> Tracker:
        return Tracker(
            folder=self.folder,
            environ=os.environ,
            clock=lambda: float(next(self._times)),
            warn=self.lines.append,
        )


def bounded(monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    """The environment of a test: this server, and nobody waits for it."""
    for name, value in {
        "MLFLOW_TRACKING_URI": uri,
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
        "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "0",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    }.items():
        monkeypatch.setenv(name, value)


def told(uri: str, folder: Path) -> tuple[Any, dict[str, bytes]]:
    """The one run that a server has, and its artifacts."""
    from mlflow import MlflowClient  # noqa: PLC0415  # it takes seconds

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("granite/nightly")
    assert experiment is not None
    name = job_of().name
    (run,) = client.search_runs([experiment.experiment_id], f"tags.`spyre-ci.job` = '{name}'")
    folder.mkdir()
    client.download_artifacts(run.info.run_id, "", str(folder))
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
    return run, files


def check_told_from_begin_to_end(uri: str, folder: Path) -> None:
    """A server that is told of a job has all of it, once, whatever is done twice."""
    results = folder / "results"
    deep = results / job_of().run / "output" / "deep"
    deep.mkdir(parents=True)
    (deep / "scores.json").write_text("{}")
    tracked = Tracked(folder / "run")
    for _ in range(2):
        tracked.tracker.begin(job_of(), "jobs/eval.yaml", SPEC)
    # Another machine knows nothing of it, and takes up the same run.
    Tracked(folder / "elsewhere").tracker.begin(job_of(), "jobs/eval.yaml", SPEC)
    run, files = told(uri, folder / "begun")
    assert run.info.status == "RUNNING"
    assert run.info.run_name == job_of().name
    assert run.data.params == {"SHOTS": "5", "FAST": "True", "TOKEN": "secret hf, key token"}
    assert run.data.tags["team"] == "kernels"
    assert run.data.tags["spyre-ci.image-tag"] == "1.2"
    assert files == {"job/spec.yaml": SPEC, "job/configs/conf/helm.conf": b"entries: []\n"}
    for _ in range(2):
        tracked.tracker.end("FAILED", {"failed": 1}, str(results))
    run, files = told(uri, folder / "ended")
    assert run.info.status == "FAILED"
    assert run.data.metrics == {"verdict.failed": 1.0, "seconds": 1.0}
    assert files["output/deep/scores.json"] == b"{}"
    tracked.tracker.end("FINISHED", {"failed": 0}, None)
    run, _ = told(uri, folder / "again")
    assert run.info.status == "FINISHED"
    assert run.data.metrics == {"verdict.failed": 0.0, "seconds": 2.0}
    (line,) = tracked.lines
    assert "the job's output is not in MLflow: add it with `spyre-ci job collect --from" in line
