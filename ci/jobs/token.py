"""The token of a notebook for which the spec names no secret: made when it is submitted, shown to nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ci.jobs.job import Job
from ci.jobs.labels import SPEC_ANNOTATION, labels_of
from ci.jobs.spec import Notebook

KEY = "token"


def with_token(job: Job) -> Job:
    """The job with a secret named for its notebook's token, where the spec names none."""
    if job.spec.kind != "notebook" or (job.spec.notebook is not None and job.spec.notebook.token):
        return job
    section = job.spec.notebook or Notebook()
    named = section.model_copy(update={"token": secret_name(job)})
    return replace(job, spec=job.spec.model_copy(update={"notebook": named}))


def without_made_token(job: Job) -> Job:
    """The job without a secret that only a submit makes."""
    section = job.spec.notebook
    if section is None or section.token != secret_name(job):
        return job
    unnamed = section.model_copy(update={"token": None})
    return replace(job, spec=job.spec.model_copy(update={"notebook": unnamed}))


def secret_name(job: Job) -> str:
    """What the secret is called that a submit makes."""
    return f"{job.name}-token"


def is_made(job: Job) -> bool:
    """Whether a submit makes the secret: the spec names none of its own.

    Args:
        job: as `with_token` gives it.
    """
    return job.spec.notebook is not None and job.spec.notebook.token == secret_name(job)


def how_to_make(job: Job) -> str:
    """The command that makes the secret where no submit does; the token is in no process's words.

    Args:
        job: whose secret a submit would make.
    """
    made = f"oc create secret generic -n {job.namespace} {secret_name(job)} --from-file={KEY}=/dev/stdin"
    return f"openssl rand -hex 24 | tr -d '\\n' | {made}"


def secret_of(job: Job, token: str, digest: str) -> dict[str, Any] | None:
    """The secret to make; None where the spec names one of its own, or there is no notebook.

    Args:
        job: as `with_token` gives it.
        token: of the notebook.
        digest: of the spec, by which what is there is known to be this job's.
    """
    if not is_made(job):
        return None
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret_name(job),
            "namespace": job.namespace,
            "labels": labels_of(job),
            "annotations": {SPEC_ANNOTATION: digest},
        },
        "type": "Opaque",
        "stringData": {KEY: token},
    }
