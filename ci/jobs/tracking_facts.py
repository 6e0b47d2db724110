"""What MLflow is told of a job: tags, parameters, metrics and status; pure, and without a secret."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Literal

from ci.core.errors import EXIT_INTERRUPTED, EXIT_OK
from ci.jobs.job import Job
from ci.jobs.parts import SecretRef, Source

Status = Literal["FINISHED", "FAILED", "KILLED"]
# By this tag a job's run is found again.
JOB_TAG = "spyre-ci.job"
_PREFIX = "spyre-ci."


def tags_of(job: Job, config_path: str, spec: bytes) -> dict[str, str]:
    """The tags of a job's run: the spec's own, and ours, which they do not replace.

    Args:
        job: submitted.
        config_path: of the spec's file, as it is shown.
        spec: what that file holds.
    """
    given = job.spec
    ours = {
        "job": job.name,
        "run": job.run,
        "kind": given.kind,
        "config-path": config_path,
        "config-sha256": config_sha(spec, configs_of(job)),
        "image": job.image,
        "image-tag": image_tag(job.image),
        "resources": json.dumps(given.resources.model_dump(exclude_none=True), sort_keys=True),
        "source": "" if given.source is None else _named(given.source),
        "commit": job.commit,
        "dirty": str(job.dirty).lower(),
        "fingerprint": job.fingerprint,
    }
    found = dict(given.tags) | {f"{_PREFIX}{name}": value for name, value in ours.items() if value}
    # Where MLflow's own pages look for it.
    return found | ({"mlflow.source.git.commit": job.commit} if job.commit else {})


def params_of(job: Job) -> dict[str, str]:
    """The job's parameters; of one that is a secret, where it is and never what."""
    return {
        name: f"secret {value.secret}, key {value.key}" if isinstance(value, SecretRef) else str(value)
        for name, value in sorted(job.spec.parameters.items())
    }


def metrics_of(verdicts: Mapping[str, int], seconds: float) -> dict[str, float]:
    """Counts of verdicts by their names, and how long it took."""
    return {f"verdict.{name}": float(count) for name, count in verdicts.items()} | {"seconds": seconds}


def status_of(exit_code: int) -> Status:
    """MLflow's word for how a job ended; one that was cancelled is as one that was interrupted."""
    if exit_code == EXIT_OK:
        return "FINISHED"
    return "KILLED" if exit_code == EXIT_INTERRUPTED else "FAILED"


def configs_of(job: Job) -> dict[str, bytes]:
    """The configuration files among a job's files, by the path the spec gives."""
    return {name: job.files[name] for name in job.spec.configs if name in job.files}


def config_sha(spec: bytes, configs: Mapping[str, bytes]) -> str:
    """One digest of a spec and its configuration files, with their names."""
    whole = hashlib.sha256()
    for name, content in (("", spec), *sorted(configs.items())):
        whole.update(f"{name}\0{len(content)}\0".encode())
        whole.update(content)
    return whole.hexdigest()


def image_tag(image: str) -> str:
    """The tag of an image's name; empty where it has none. A port of its registry is none."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def _named(source: Source) -> str:
    if source.artifact is not None:
        return f"runs:/{source.artifact.run}/{source.artifact.path}"
    return source.bucket or ""
