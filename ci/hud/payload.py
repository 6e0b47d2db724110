"""What a run tells HUD of itself: its counts, its conclusion, its callback; pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from ci.hud.callback import UPSTREAM_REPOSITORY, Attempt, Count, Identifier, RunDetails, Time

SCHEMA_VERSION = "1"
# What a job is known by beside repository and delivery; its two reports have them in common.
JOB_KEYS = ("name", "job_name", "check_run_id", "run_id", "run_attempt")

# HUD knows three counts, a run has nine verdicts. A test that did not give a pass where a pass was wanted is
# failed, whoever's fault it is, so that a hole never looks like success; passed + failed + skipped = total.
COUNT_OF_VERDICT: Mapping[str, Literal["passed", "failed", "skipped"]] = {
    "passed": "passed",
    "flaky": "passed",
    "xpassed": "passed",
    "failed": "failed",
    "hardware": "failed",
    "infrastructure": "failed",
    "not_run": "failed",
    "skipped": "skipped",
    "xfailed": "skipped",
}


def _time_text(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime.fromtimestamp(value, UTC).isoformat(timespec="milliseconds")
    return value


class RunIdentity(BaseModel):
    """Who a run is, as `summary.json` says under `identity`; times are ISO-8601 or epoch seconds."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    run: str = ""
    run_id: Identifier
    run_attempt: Attempt = 1
    lane: str = ""
    job_name: str = ""
    workflow: str = ""
    url: str = ""
    provider: str = ""
    pytorch_version: str = ""
    pytorch_sha: str = ""
    device: str = ""
    stage: Count | None = None
    percent: float | None = None
    started_at: Annotated[Time, BeforeValidator(_time_text)]
    completed_at: Annotated[Time | None, BeforeValidator(_time_text)] = None


def count_verdicts(verdicts: Mapping[str, int], *, quarantined: int = 0) -> dict[str, int]:
    """HUD's counts `{passed, failed, skipped, total}` of the nine verdicts (see COUNT_OF_VERDICT).

    Args:
        verdicts: verdict to number of tests.
        quarantined: how many of the failed do not turn the run red; they count as skipped, which is what the
            JUnit files say of them.

    Raises:
        ValueError: a verdict is none of the nine; a test would be lost in silence. Or more are quarantined
            than failed.
    """
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for verdict, number in verdicts.items():
        if verdict not in COUNT_OF_VERDICT:
            raise ValueError(f"{verdict!r} is not a verdict; known are: {', '.join(COUNT_OF_VERDICT)}")
        counts[COUNT_OF_VERDICT[verdict]] += number
    if not 0 <= quarantined <= verdicts.get("failed", 0):
        raise ValueError(f"{quarantined} failures are quarantined of {verdicts.get('failed', 0)}")
    counts["failed"] -= quarantined
    counts["skipped"] += quarantined
    return {**counts, "total": sum(counts.values())}


def conclusion_of(exit_code: int) -> str:
    """HUD's conclusion of a run's exit code: 0 success, 130 cancelled, anything else failure."""
    return {0: "success", 130: "cancelled"}.get(exit_code, "failure")


def key_part(text: str, *, otherwise: str) -> str:
    """A name without what HUD and the relay split keys at: colons, control characters, outer blanks."""
    cleaned = re.sub(r"[:\x00-\x1f\x7f\ud800-\udfff]+", "-", text).strip(" -")
    return cleaned[:255] or otherwise


def workflow_of(identity: RunIdentity, *, status: str, check_run_id: str | None = None) -> dict[str, Any]:
    """What both callbacks of a job say alike.

    Args:
        identity: who the run is.
        status: in_progress or completed.
        check_run_id: GitHub's `job.check_run_id`, which is not in the environment; None makes one.
    """
    return {
        "status": status,
        "conclusion": None,
        "run_id": identity.run_id,
        "run_attempt": identity.run_attempt,
        "name": key_part(identity.workflow, otherwise="spyre-ci"),
        "job_name": job_name_of(identity),
        "check_run_id": check_run_id or check_run_of(identity),
        "started_at": identity.started_at,
        "completed_at": None,
        "url": identity.url,
        "schema_version": SCHEMA_VERSION,
    }


def job_name_of(identity: RunIdentity) -> str:
    """The CI's job with the lane, or the device, where it does not name them.

    GitHub's legs of a matrix have one name, and HUD takes what has one name in one run for one job.
    """
    job, told = identity.job_name, identity.lane or identity.device
    named = f"{job} ({told})" if job and told and told not in job else job or told
    return key_part(named, otherwise="spyre-ci")


def check_run_of(identity: RunIdentity) -> str:
    """The check run of a job that was handed none: its run, its attempt, and what tells it from all others.

    Upstream's own reporter makes it of the first two; but a job may run us twice, and Jenkins counts the
    builds of each of its jobs from 1.
    """
    names = (identity.run, identity.workflow, identity.job_name)
    digest = hashlib.blake2b("\n".join(names).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"{identity.run_id}-{identity.run_attempt}-{digest}"


def completed(
    identity: RunIdentity,
    *,
    verdicts: Mapping[str, int],
    exit_code: int,
    quarantined: int = 0,
    check_run_id: str | None = None,
    artifact_url: str = "",
    conclusion: str | None = None,
) -> dict[str, Any]:
    """The `workflow` of a run that ended, whatever the number of its shards.

    Args:
        identity: who the run is.
        verdicts: verdict to number of tests.
        exit_code: of the run; decides the conclusion.
        quarantined: how many of the failed tests do not turn it red.
        check_run_id: as `workflow_of` has it.
        artifact_url: where the report can be fetched.
        conclusion: overrides the exit code's, such as `timed_out`.

    Raises:
        ValueError: as `count_verdicts` says.
    """
    return {
        **workflow_of(identity, status="completed", check_run_id=check_run_id),
        "conclusion": conclusion or conclusion_of(exit_code),
        "completed_at": identity.completed_at,
        "test_results": count_verdicts(verdicts, quarantined=quarantined),
        "artifact_url": artifact_url,
    }


def delivery_of(identity: RunIdentity) -> str:
    """The delivery of a nightly: the PyTorch commit, or version and content hash of a tree without git."""
    return key_part(identity.pytorch_sha or identity.pytorch_version, otherwise="").replace("/", "-")


def nightly_completed(
    identity: RunIdentity,
    *,
    run: str,
    verdicts: Mapping[str, int],
    exit_code: int,
    quarantined: int = 0,
    check_run_id: str | None = None,
    artifact_url: str = "",
    conclusion: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The one callback of a nightly run.

    Args:
        identity: who the run is.
        run: the readable run id, the name of its folder.
        verdicts: verdict to number of tests.
        exit_code: of the run; decides the conclusion.
        quarantined: how many of the failed tests do not turn it red.
        check_run_id: as `workflow_of` has it.
        artifact_url: where the report can be fetched.
        conclusion: overrides the exit code's, such as `timed_out`.
        details: more of what HUD's contract has no field for.
    """
    sha = delivery_of(identity)
    told = RunDetails.model_construct(
        run=run,
        lane=identity.lane,
        provider=identity.provider,
        device=identity.device,
        pytorch=identity.pytorch_version,
        stage=identity.stage,
        percent=identity.percent,
        exit_code=exit_code,
        verdicts=dict(verdicts),
        quarantined=quarantined,
    )
    return {
        "event_type": "nightly",
        "delivery_id": sha,
        "payload": {
            "head_sha": sha,
            "repository": {"full_name": UPSTREAM_REPOSITORY},
            "spyre_ci": {**told.model_dump(exclude={"emulated"}), **(details or {})},
        },
        "workflow": completed(
            identity,
            verdicts=verdicts,
            exit_code=exit_code,
            quarantined=quarantined,
            check_run_id=check_run_id,
            artifact_url=artifact_url,
            conclusion=conclusion,
        ),
    }


def report_identity(payload: Mapping[str, Any], *, repository: str) -> str:
    """One report's identity (law 6): the job's key at HUD, the run, its attempt and the status told.

    It needs no valid callback, so that a corrected report takes the place of one that could not be sent.
    """
    told = payload["workflow"]
    parts = (payload["delivery_id"], *(told[key] for key in JOB_KEYS), told["status"])
    return "/".join([repository, *map(str, parts)])


def encode(payload: Mapping[str, Any]) -> bytes:
    """The JSON that is sent.

    Raises:
        ValueError: it holds NaN or an infinity, which JSON does not know.
    """
    return json.dumps(payload, separators=(",", ":"), allow_nan=False).encode()
