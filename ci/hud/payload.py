"""The nightly callback of a run, and what is checked before any callback is sent; pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from ci.hud.callback import (
    MAX_BYTES,
    UPSTREAM_REPOSITORY,
    Attempt,
    Callback,
    Count,
    Identifier,
    RunDetails,
    Time,
    Workflow,
    explain,
    is_web_url,
    parse_time,
)

CONCLUSIONS = ("success", "failure", "cancelled", "timed_out")
# HUD keeps a row under its dynamoKey in DynamoDB, whose keys end at 2,048 bytes.
MAX_KEY_BYTES = 2048
SCHEMA_VERSION = "1"

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
    completed_at: Annotated[Time, BeforeValidator(_time_text)]


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
) -> dict[str, Any]:
    """The one `completed` callback of a nightly run, whatever the number of its shards.

    Args:
        identity: who the run is.
        run: the readable run id, the name of its folder.
        verdicts: verdict to number of tests.
        exit_code: of the run; decides the conclusion.
        quarantined: how many of the failed tests do not turn it red.
        check_run_id: GitHub's `job.check_run_id`, which is not in the environment; None makes one of the run
            and the attempt, so that a re-run does not overwrite the row of the attempt before.
        artifact_url: where the report can be fetched.
        conclusion: overrides the exit code's, such as `timed_out`.
    """
    sha = key_part(identity.pytorch_sha or identity.pytorch_version, otherwise="").replace("/", "-")
    details = RunDetails.model_construct(
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
            "spyre_ci": details.model_dump(),
        },
        "workflow": {
            "status": "completed",
            "conclusion": conclusion or conclusion_of(exit_code),
            "run_id": identity.run_id,
            "run_attempt": identity.run_attempt,
            "name": key_part(identity.workflow, otherwise="spyre-ci"),
            "job_name": key_part(identity.job_name, otherwise=key_part(identity.lane, otherwise="spyre-ci")),
            "check_run_id": check_run_id or f"{identity.run_id}-{identity.run_attempt}",
            "started_at": identity.started_at,
            "completed_at": identity.completed_at,
            "test_results": count_verdicts(verdicts, quarantined=quarantined),
            "artifact_url": artifact_url,
            "url": identity.url,
            "schema_version": SCHEMA_VERSION,
        },
    }


def report_identity(payload: Mapping[str, Any], *, repository: str) -> str:
    """One report's identity (law 6): the job's key at HUD, the run, its attempt and the status told.

    It needs no valid callback, so that a corrected report takes the place of one that could not be sent.
    """
    told = payload["workflow"]
    keys = ("name", "job_name", "check_run_id", "run_id", "run_attempt", "status")
    return "/".join([repository, str(payload["delivery_id"]), *(str(told[key]) for key in keys)])


def encode(payload: Mapping[str, Any]) -> bytes:
    """The JSON that is sent.

    Raises:
        ValueError: it holds NaN or an infinity, which JSON does not know.
    """
    return json.dumps(payload, separators=(",", ":"), allow_nan=False).encode()


def check(payload: Mapping[str, Any], *, repository: str) -> list[str]:
    """Why a callback must not be sent; empty when the contract holds.

    The relay answers 200 to much that HUD then loses (bad times, a colon in a job's name, a row without a
    start), so more is checked here than a server would refuse.
    """
    try:
        size = len(encode(payload))
        callback = Callback.model_validate(payload)
    except ValidationError as error:
        return [explain(detail) for detail in error.errors()]
    except ValueError as error:
        return [f"it is no JSON: {error}"]
    reasons = [*_check_keys(callback, repository), *_check_told(callback), *_check_times(callback.workflow)]
    if size > MAX_BYTES:
        reasons.append(f"it has {size} bytes, more than the {MAX_BYTES} the relay takes")
    return reasons


def _check_keys(callback: Callback, repository: str) -> list[str]:
    workflow, reasons = callback.workflow, []
    if callback.nightly and workflow.status != "completed":
        reasons.append(f"workflow.status: a {callback.event_type} reports `completed` only")
    if callback.nightly and callback.payload.head_sha != callback.delivery_id:
        reasons.append("payload.head_sha: must be the delivery_id, the PyTorch commit")
    for key, value in (("workflow.job_name", workflow.job_name), ("delivery_id", callback.delivery_id)):
        if ":" in value:
            reasons.append(f"{key}: holds a colon, at which the relay splits its keys (seen: {value!r})")
    if not re.fullmatch(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+", repository):
        reasons.append(f"repository: is not owner/name (seen: {repository!r})")
    if len(callback.key(repository).encode("utf-8", "replace")) > MAX_KEY_BYTES:
        reasons.append(f"the names together make a key of more than {MAX_KEY_BYTES} bytes")
    return reasons


def _check_told(callback: Callback) -> list[str]:
    workflow, reasons = callback.workflow, []
    if workflow.status == "completed":
        if workflow.conclusion not in CONCLUSIONS:
            known = ", ".join(CONCLUSIONS)
            reasons.append(f"workflow.conclusion: must be one of {known} (seen: {workflow.conclusion!r})")
        if workflow.test_results is None:
            reasons.append("workflow.test_results: is missing")
    for key, url in (("url", workflow.url), ("artifact_url", workflow.artifact_url)):
        if url and not is_web_url(url):
            reasons.append(f"workflow.{key}: is no http(s) URL (seen: {url[:80]!r})")
    return reasons


def _check_times(workflow: Workflow) -> list[str]:
    if workflow.started_at is None:
        return ["workflow.started_at: is missing; a row without it shows on almost no page"]
    texts = {"started_at": workflow.started_at}
    if workflow.status == "completed":
        if workflow.completed_at is None:
            return ["workflow.completed_at: is missing"]
        texts["completed_at"] = workflow.completed_at
    reasons = [
        f"workflow.{key}: has no offset from UTC (seen: {text!r})"
        for key, text in texts.items()
        if datetime.fromisoformat(text).tzinfo is None
    ]
    moments = [parse_time(text) for text in texts.values()]
    if moments != sorted(moments):
        reasons.append("workflow.completed_at: is before started_at")
    return reasons
