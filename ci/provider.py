"""Which CI runs us (GitHub Actions, Jenkins, none): run identity, log folding and the step summary."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

_BY_DIGEST = re.compile(r"[a-z0-9][a-z0-9._:/-]*@sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """What the CI says of this run.

    Attributes:
        name: `github`, `jenkins` or `none`.
        run_id: a whole number above 0.
        run_attempt: from 1.
        job_name: the job this process belongs to; empty where there is none.
        workflow: the workflow's or Jenkins job's name.
        url: page of the run; empty where there is none.
        step_summary: file that takes Markdown for the run's page.
        commit: what is checked out, as the CI has it; empty where it does not say.
        image: the image this runs in, name@sha256:…, as SPYRE_CI_IMAGE says; empty where it does not.
    """

    name: str
    run_id: int
    run_attempt: int
    job_name: str
    workflow: str
    url: str
    step_summary: Path | None
    commit: str = ""
    image: str = ""


def detect(environ: Mapping[str, str], *, epoch_s: float) -> Provider:
    """Read the CI's variables.

    Args:
        environ: the environment.
        epoch_s: seconds since the epoch; its whole part is the run id where no CI gives one.
    """
    told = environ.get("SPYRE_CI_IMAGE", "")
    # Of a tag nobody knows tomorrow which image it was.
    image = told if _BY_DIGEST.fullmatch(told) else ""
    return replace(_detected(environ, epoch_s), image=image)


def _detected(environ: Mapping[str, str], epoch_s: float) -> Provider:
    if environ.get("GITHUB_ACTIONS") == "true":
        return _github(environ, epoch_s)
    if environ.get("JENKINS_URL"):
        return _jenkins(environ, epoch_s)
    return Provider(
        name="none",
        run_id=int(epoch_s),
        run_attempt=1,
        job_name="",
        workflow="local",
        url="",
        step_summary=None,
    )


def in_log(environ: Mapping[str, str]) -> bool:
    """Whether what is printed ends up in a CI's log: no place for a bar, even where colours are forced on."""
    return environ.get("CI", "").lower() in ("1", "true") or detect(environ, epoch_s=0).name != "none"


def _github(environ: Mapping[str, str], epoch_s: float) -> Provider:
    server, repository = environ.get("GITHUB_SERVER_URL", ""), environ.get("GITHUB_REPOSITORY", "")
    run_id = environ.get("GITHUB_RUN_ID", "")
    summary = environ.get("GITHUB_STEP_SUMMARY")
    return Provider(
        name="github",
        run_id=_whole(run_id, int(epoch_s)),
        run_attempt=_whole(environ.get("GITHUB_RUN_ATTEMPT", ""), 1),
        job_name=environ.get("GITHUB_JOB", ""),
        workflow=environ.get("GITHUB_WORKFLOW", ""),
        url=f"{server}/{repository}/actions/runs/{run_id}" if server and repository and run_id else "",
        step_summary=Path(summary) if summary else None,
        commit=environ.get("GITHUB_SHA", ""),
    )


def _jenkins(environ: Mapping[str, str], epoch_s: float) -> Provider:
    job = environ.get("JOB_NAME", "")
    return Provider(
        name="jenkins",
        run_id=_whole(environ.get("BUILD_NUMBER", ""), int(epoch_s)),
        run_attempt=1,
        job_name=job.rpartition("/")[2],
        workflow=job,
        url=environ.get("BUILD_URL", ""),
        step_summary=None,
        commit=environ.get("GIT_COMMIT", ""),
    )


def _whole(text: str, otherwise: int) -> int:
    return int(text) if text.isdecimal() and int(text) > 0 else otherwise
