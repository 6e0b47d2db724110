"""What a callback's body becomes: a step of its job's states, and a row of `crcr_workflow_job`.

Upstream validates nothing, and answers 200 to times, counts and texts no column can hold; the row is then
lost in ClickHouse. Here the answer is the same and the row is kept, without what its columns cannot hold:
nobody is served by the loss. What is not defined is left out of a row, so that it merges.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping
from typing import Any, TypeGuard

from pydantic import ValidationError
from starlette.exceptions import HTTPException

from ci.hud.callback import MAX_ATTEMPT, NIGHTLY_EVENTS, UPSTREAM_REPOSITORY, RunDetails, parse_time
from ci.hud.server.states import Step, advance
from ci.store.identity import job_number, stored_number
from ci.store.store import Row, Store, put

MAX_COLUMN = 2**63 - 1
COUNTS = ("passed", "failed", "skipped")


def record_callback(store: Store, content: Any, *, repository: str, at: float, level: str = "") -> str:
    """Take one callback: its job's state and its row, or neither; return the status.

    Args:
        store: of the jobs.
        content: the body, as JSON has it.
        repository: the downstream one, as the token vouches for it.
        at: seconds since the epoch.
        level: of the repository, L2 to L4; empty where there is none.

    Raises:
        HTTPException: 400, the relay refuses it: a field is missing, a nightly is not completed, or a pull
            request's job was not dispatched, comes twice or skips a state; 500, as `_step_of` says. Or HUD
            refuses it, 400: as upstream, the relay has kept the job's state by then.
    """
    step = _step_of(content, repository)
    nightly = _text(content.get("event_type")) in NIGHTLY_EVENTS
    if nightly and step.status != "completed":
        raise HTTPException(
            400, f"nightly/periodic callbacks must have status 'completed', got {step.status!r}"
        )
    try:
        row, detail = row_of(content, repository=repository, level=level)
    except HTTPException as error:
        if not nightly:
            with store.transaction() as connection:
                advance(connection, step, at)
        raise HTTPException(400, f"HUD rejected callback: HTTP 400: {error.detail}") from error
    with store.transaction() as connection:
        metrics = {} if nightly else advance(connection, step, at)
        put(connection, {**row, **metrics}, detail, at)
    return step.status


def _step_of(content: Any, repository: str) -> Step:
    """What the relay takes from a body.

    Raises:
        HTTPException: 400, a field is missing, or is no table where it should be one; 500, a run's number or
            attempt is none.
    """
    try:
        delivery_id, workflow = content["delivery_id"], content["workflow"]
        status, _, run_id = workflow["status"], workflow["name"], int(workflow["run_id"])
        run_attempt = int(workflow.get("run_attempt", 1))
    except (KeyError, TypeError) as error:
        raise HTTPException(400, f"callback body missing required field: {error}") from error
    except (ValueError, OverflowError) as error:
        raise HTTPException(500, "Internal server error") from error
    return Step(
        delivery_id=_text(delivery_id),
        repository=repository,
        run_id=run_id,
        run_attempt=run_attempt,
        job_name=_text(workflow.get("job_name") or ""),
        status=_text(status),
    )


def row_of(content: Any, *, repository: str, level: str, metrics: Any = None) -> tuple[Row, Row | None]:
    """The columns HUD writes for a body, and those of `job_detail`.

    Args:
        content: the body.
        repository: the downstream one.
        level: of the repository; empty is not defined.
        metrics: `queue_time` and `execution_time` in seconds, as a relay in front says them.

    Raises:
        HTTPException: 400, as HUD answers.
    """
    body = _table(content)
    workflow, payload = _table(body.get("workflow")), _table(body.get("payload"))
    if workflow.get("job_name") in (None, "", 0):
        raise HTTPException(400, "Missing required field: workflow.job_name")
    if workflow.get("check_run_id") is None:
        raise HTTPException(400, "Missing required field: workflow.check_run_id")
    pull_request = _table(payload.get("pull_request"))
    delivery_id, name = _text(body.get("delivery_id")), _text(workflow.get("name"))
    job_name, check_run_id = _text(workflow["job_name"]), _text(workflow["check_run_id"])
    head_sha = _table(pull_request.get("head")).get("sha") or payload.get("head_sha") or delivery_id
    details = _details(payload.get("spyre_ci"))
    columns = {
        "dynamoKey": f"{repository}/{delivery_id}/{name}/{job_name}/{check_run_id}",
        "status": _text(workflow.get("status")),
        "downstream_repo": repository,
        "upstream_repo": _text(_table(payload.get("repository")).get("full_name") or UPSTREAM_REPOSITORY),
        "pytorch_head_sha": _text(head_sha),
        "delivery_id": delivery_id,
        "workflow_run_url": _text(workflow.get("url") or ""),
        "workflow_name": name,
        "job_name": job_name,
        "check_run_id": check_run_id,
        "run_id": _text(workflow.get("run_id") or ""),
        "job_id": stored_number(job_number(check_run_id, repository=repository), repository=repository),
        "pr_number": _whole(pull_request.get("number", 0)),
        "run_attempt": _whole(_number(workflow.get("run_attempt", 1)) or 1, most=MAX_ATTEMPT),
        "downstream_repo_level": _text(level) or None,
        "event_type": _text(body.get("event_type") or "") or None,
        "artifact_url": _text(workflow.get("artifact_url") or "") or None,
        "started_at": _time(workflow.get("started_at")),
        "queue_time": _seconds(_table(metrics).get("queue_time")),
        "execution_time": _seconds(_table(metrics).get("execution_time")),
        "environment": None if details is None else details.model_dump_json(exclude_defaults=True),
    }
    if workflow.get("status") == "completed":
        columns |= _end(workflow)
    if details is None:
        return _defined(columns), None
    told = details.model_dump(exclude_defaults=True, exclude=set(RunDetails.NO_COLUMNS))
    return _defined(columns), _defined(told)


def _end(workflow: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that only a job which has ended defines."""
    columns: dict[str, Any] = {
        "conclusion": _text(workflow.get("conclusion") or "") or None,
        "completed_at": _time(workflow.get("completed_at")),
    }
    results = workflow.get("test_results")
    if isinstance(results, dict):
        counts = {f"{name}_tests": _whole(results.get(name)) for name in COUNTS}
        total = results.get("total")
        if not _is_number(total):
            total = sum(count or 0 for count in counts.values())
        columns |= {**counts, "total_tests": _whole(total)}
    return columns


def _defined(columns: Mapping[str, Any]) -> Row:
    return {name: value for name, value in columns.items() if value is not None}


def _details(said: Any) -> RunDetails | None:
    with contextlib.suppress(ValidationError):
        return RunDetails.model_validate(said)
    return None


def _table(value: Any) -> Mapping[str, Any]:
    # JavaScript finds nothing under a key of what is no table, and goes on.
    return value if isinstance(value, dict) else {}


def _time(value: Any) -> str | None:
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        return parse_time(value).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return None


def _whole(value: Any, *, most: int = MAX_COLUMN) -> int | None:
    return int(value) if _is_number(value) and 0 <= value <= most and value == int(value) else None


def _seconds(value: Any) -> float | None:
    return float(value) if _is_number(value) else None


def _number(value: Any) -> float:
    # As JavaScript's Number(), near enough: what is none counts as 0.
    try:
        return float(value)
    except (ValueError, TypeError, OverflowError):
        return 0


def _is_number(value: Any) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -MAX_COLUMN <= value <= MAX_COLUMN and math.isfinite(value)


def _text(value: Any) -> str:
    """Text a column can hold; half of a surrogate pair, which no UTF-8 has, becomes a question mark."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "replace").decode()
