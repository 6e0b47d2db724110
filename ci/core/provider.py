"""Which CI runs us (GitHub Actions, Jenkins, none): run identity, log folding and the step summary."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

_OUTPUT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_LINE_END = re.compile(r"[\r\n]")
# An image by what it holds, and not by a tag that moves.
BY_DIGEST = re.compile(r"[a-z0-9][a-z0-9._:/-]*@sha256:[0-9a-f]{64}")


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
        image: the image this runs in, name@sha256:…, as SPYRE_CI_CONTAINER or SPYRE_CI_IMAGE
            says; empty where neither does.
        lane: the recurring run this belongs to, as SPYRE_CI_LANE says; empty where it does not.
    """

    name: str
    run_id: int
    run_attempt: int = 1
    job_name: str = ""
    workflow: str
    url: str = ""
    step_summary: Path | None = None
    commit: str = ""
    image: str = ""
    lane: str = ""


def detect(environ: Mapping[str, str], *, epoch_s: float) -> Provider:
    """Read the CI's variables.

    Args:
        environ: the environment.
        epoch_s: seconds since the epoch; its whole part is the run id where no CI gives one.
    """
    # What a workflow had its job's container made of, or what the pod that is the runner says of itself.
    told = environ.get("SPYRE_CI_CONTAINER") or environ.get("SPYRE_CI_IMAGE", "")
    # Of a tag nobody knows tomorrow which image it was.
    image = told if BY_DIGEST.fullmatch(told) else ""
    if environ.get("GITHUB_ACTIONS") == "true":
        found = _github(environ, epoch_s)
    elif environ.get("JENKINS_URL"):
        found = _jenkins(environ, epoch_s)
    else:
        found = Provider(name="none", run_id=int(epoch_s), workflow="local")
    return replace(found, image=image, lane=environ.get("SPYRE_CI_LANE", ""))


def in_log(environ: Mapping[str, str]) -> bool:
    """Whether what is printed ends up in a CI's log: no place for a bar, even where colours are forced on."""
    return environ.get("CI", "").lower() in ("1", "true") or detect(environ, epoch_s=0).name != "none"


def output_lines(outputs: Mapping[str, Any], *, delimiter: str) -> str:
    """Outputs of a job's step as the file takes them that GitHub names in GITHUB_OUTPUT; pure.

    Args:
        outputs: by name; text as it is, anything else as JSON on one line.
        delimiter: random, so that no value can hold it; around those that have more than one line.

    Raises:
        ValueError: a name that the runner would take for something else.
    """
    lines = []
    for name, value in outputs.items():
        if not _OUTPUT_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of an output")
        text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        several = _LINE_END.search(text)
        lines.append(f"{name}<<{delimiter}\n{text}\n{delimiter}\n" if several else f"{name}={text}\n")
    return "".join(lines)


def write_outputs(environ: Mapping[str, str], outputs: Mapping[str, Any]) -> None:
    """Hand outputs to the later steps of a GitHub job; elsewhere there is nobody to hand them to.

    Args:
        environ: the environment.
        outputs: see `output_lines`.

    Raises:
        OSError: the file cannot be written.
        ValueError: see `output_lines`.
    """
    if path := environ.get("GITHUB_OUTPUT"):
        # All at once: a value that cannot be written leaves no half of an output behind.
        data = output_lines(outputs, delimiter=secrets.token_hex(16)).encode("utf-8", "backslashreplace")
        with Path(path).open("ab") as stream:
            stream.write(data)


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
        job_name=job.rpartition("/")[2],
        workflow=job,
        url=environ.get("BUILD_URL", ""),
        commit=environ.get("GIT_COMMIT", ""),
    )


def _whole(text: str, otherwise: int) -> int:
    return int(text) if text.isdecimal() and int(text) > 0 else otherwise
