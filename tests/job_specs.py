"""Specs of every kind, as small as their contract allows, and the jobs they become."""

from __future__ import annotations

from typing import Any

from ci.jobs.job import Job
from ci.jobs.labels import job_name
from ci.jobs.spec import DAY_MINUTES, TRACKING_VARIABLE, Spec

RUN = "2026-11-23-nightly-main-0042"
IMAGE = f"registry.example.com/spyre/runtime@sha256:{'4b' * 32}"
COMMIT = "9c1e0f3a7d52b86e4410c7f98ad6b35e2f7801dd"
MODEL_RUN = "0f" * 16
ARTIFACT = {"artifact": {"run": MODEL_RUN, "path": "models/base"}}
BUCKET = {"bucket": "s3://models/base"}
MLFLOW = {TRACKING_VARIABLE: "https://mlflow.example.com"}

_OF_KIND: dict[str, dict[str, Any]] = {
    "tests": {"store": {"volume": "results"}, "resources": {"cards": 2}},
    "evaluation": {"evaluation": {"command": ["evaluate", "{configs}/run.conf"], "configs": ["run.conf"]}},
    "load": {"source": ARTIFACT, "environment": MLFLOW, "load": {"to": "s3://models/base"}},
    "train": {"source": BUCKET, "store": {"bucket": "s3://runs/train"}, "train": {"command": ["train"]}},
    "serve": {"source": BUCKET, "resources": {"cards": 1}},
    "notebook": {"resources": {"cards": 1}},
}


def spec_of(kind: str, **more: Any) -> Spec:
    """A spec that keeps its kind's contract; `more` stands over what is usual."""
    return Spec.model_validate(
        {"version": 1, "kind": kind, "image": {"name": IMAGE}, **_OF_KIND[kind], **more}
    )


def job_of(spec: Spec, **more: Any) -> Job:
    """The job a spec becomes; `more` stands over what is usual."""
    usual: dict[str, Any] = {
        "spec": spec,
        "name": job_name(spec.name or spec.kind, RUN),
        "run": RUN,
        "image": spec.image.name or IMAGE,
        "namespace": "spyre-ci",
        "pods": 1,
        "deadline_s": (spec.deadline_minutes or DAY_MINUTES) * 60,
        "commit": COMMIT,
        "files": {path: f"# {path}\n".encode() for path in spec.configs},
    }
    if spec.kind == "tests":
        usual |= {
            "pods": 3,
            "deadline_s": 5_400,
            "pod_deadline_s": 1_800,
            "fingerprint": "5e" * 32,
            "shards": ((0, 1), (2, 3), (4, 5)),
        }
        in_bucket = spec.store is not None and spec.store.bucket is not None
        packed = b"\x1f\x8b\x08\x00plan"
        usual |= {"plan": packed} if in_bucket else {"files": {"plan.json.gz.000": packed}}
    return Job(**usual | more)
