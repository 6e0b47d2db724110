"""The row of `crcr_workflow_job` a callback makes, as the contract says or as upstream reads it; pure.

What is not defined is left out, so it merges. Upstream validates nothing, and answers 200 to times, counts
and texts no column can hold; the row is then lost in ClickHouse. Read as upstream does, the answer is the
same and the row is kept, without what its columns cannot hold: nobody is served by the loss.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping
from typing import Any, TypeGuard

from pydantic import ValidationError

from ci.hud.callback import UPSTREAM_REPOSITORY, Callback, RunDetails, Workflow, parse_time
from ci.hud.server.states import CallbackRefusedError, Step, advance, note_dispatch
from ci.store.identity import job_number, stored_number
from ci.store.store import Row, Store, put

MAX_COLUMN = 2**63 - 1


def row_of(
    callback: Callback, *, repository: str, metrics: Mapping[str, float | None], level: str = ""
) -> Row:
    """The defined columns of a callback's row.

    Args:
        callback: what was sent.
        repository: the downstream repository, as the token vouches for it; never the body's word.
        metrics: `queue_time` and `execution_time` in seconds; None is not defined.
        level: of the repository in the allow-list; empty is not defined.
    """
    workflow, payload = callback.workflow, callback.payload
    row: Row = {
        "dynamoKey": callback.key(repository),
        "status": workflow.status,
        "downstream_repo": repository,
        "upstream_repo": payload.repository.full_name,
        "pr_number": payload.pull_request.number if payload.pull_request is not None else 0,
        "pytorch_head_sha": callback.head_sha,
        "delivery_id": callback.delivery_id,
        "workflow_run_url": workflow.url or "",
        "workflow_name": workflow.name,
        "job_name": workflow.job_name,
        "check_run_id": str(workflow.check_run_id),
        "run_id": str(workflow.run_id),
        "run_attempt": workflow.run_attempt,
        "job_id": stored_number(
            job_number(workflow.check_run_id, repository=repository), repository=repository
        ),
    }
    if level:
        row["downstream_repo_level"] = level
    if callback.event_type:
        row["event_type"] = callback.event_type
    if payload.spyre_ci is not None:
        row["environment"] = payload.spyre_ci.model_dump_json(exclude_defaults=True)
    if workflow.started_at:
        row["started_at"] = _utc(workflow.started_at)
    if workflow.artifact_url:
        row["artifact_url"] = workflow.artifact_url
    row.update({name: value for name, value in metrics.items() if value is not None})
    if workflow.status == "completed":
        row.update(_completed(workflow))
    return row


def detail_of(callback: Callback) -> Row | None:
    """The defined columns of `job_detail`; None where the job says nothing of itself."""
    details = callback.payload.spyre_ci
    return None if details is None else detail_row(details)


def detail_row(details: RunDetails) -> Row:
    """The defined columns of `job_detail` of what a job says of itself."""
    told = details.model_dump(exclude_defaults=True, exclude=set(RunDetails.NO_COLUMNS))
    return {name: value for name, value in told.items() if value is not None}


def _completed(workflow: Workflow) -> Row:
    row: Row = {}
    if workflow.conclusion:
        row["conclusion"] = workflow.conclusion
    if workflow.completed_at:
        row["completed_at"] = _utc(workflow.completed_at)
    counts = workflow.test_results
    if counts is not None:
        row["passed_tests"] = counts.passed
        row["failed_tests"] = counts.failed
        row["skipped_tests"] = counts.skipped
        row["total_tests"] = counts.passed + counts.failed + counts.skipped
    return row


def _utc(text: str) -> str:
    return parse_time(text).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class MissingFieldError(Exception):
    """What upstream answers 400 to; its text is told to the client."""


def step_of(body: Any, repository: str) -> Step:
    """What the relay takes from a body.

    Raises:
        MissingFieldError: a field is missing, or is no table where it should be one.
        ValueError, OverflowError, AttributeError: it is malformed in a way upstream answers 500 to.
    """
    try:
        delivery_id, workflow = body["delivery_id"], body["workflow"]
        status, name = workflow["status"], workflow["name"]
        run_id = int(workflow["run_id"])
        run_attempt = int(workflow.get("run_attempt", 1))
    except (KeyError, TypeError) as error:
        raise MissingFieldError(f"callback body missing required field: {error}") from error
    del name
    return Step(
        delivery_id=_text(delivery_id),
        repository=repository,
        run_id=run_id,
        run_attempt=run_attempt,
        job_name=_text(workflow.get("job_name") or ""),
        status=_text(status),
    )


def row_of_body(body: Any, *, repository: str, level: str, metrics: Any) -> tuple[Row, Row | None]:
    """The columns HUD writes for a body, and those of `job_detail`.

    Raises:
        MissingFieldError: HUD answers 400 to it.
        TypeError, AttributeError, KeyError: HUD answers 500 to it.
    """
    workflow, payload = body["workflow"], _table(body.get("payload"))
    if not workflow.get("job_name"):
        raise MissingFieldError("Missing required field: workflow.job_name")
    if workflow.get("check_run_id") is None:
        raise MissingFieldError("Missing required field: workflow.check_run_id")
    pull_request = _table(payload.get("pull_request"))
    delivery_id, name = _text(body.get("delivery_id")), _text(workflow.get("name"))
    job_name, check_run_id = _text(workflow["job_name"]), _text(workflow["check_run_id"])
    row: Row = {
        "dynamoKey": f"{repository}/{delivery_id}/{name}/{job_name}/{check_run_id}",
        "status": _text(workflow.get("status")),
        "downstream_repo": repository,
        "upstream_repo": _text(_table(payload.get("repository")).get("full_name") or UPSTREAM_REPOSITORY),
        "pytorch_head_sha": _text(_head_sha(pull_request, payload) or delivery_id),
        "delivery_id": delivery_id,
        "workflow_run_url": _text(workflow.get("url") or ""),
        "workflow_name": name,
        "job_name": job_name,
        "check_run_id": check_run_id,
        "run_id": _text(workflow.get("run_id") or ""),
        "job_id": stored_number(job_number(check_run_id, repository=repository), repository=repository),
    }
    _add_whole(row, "pr_number", pull_request.get("number", 0))
    _add_whole(row, "run_attempt", _number(workflow.get("run_attempt", 1)) or 1)
    if level:
        row["downstream_repo_level"] = level
    _add_text(row, "event_type", body.get("event_type"))
    _add_text(row, "artifact_url", workflow.get("artifact_url"))
    _add_time(row, "started_at", workflow.get("started_at"))
    for metric in ("queue_time", "execution_time"):
        value = _table(metrics).get(metric)
        if _is_number(value):
            row[metric] = float(value)
    if workflow.get("status") == "completed":
        _add_end(row, workflow)
    return row, _add_details(row, payload.get("spyre_ci"))


def _add_end(row: Row, workflow: Mapping[str, Any]) -> None:
    _add_text(row, "conclusion", workflow.get("conclusion"))
    _add_time(row, "completed_at", workflow.get("completed_at"))
    results = workflow.get("test_results")
    if not isinstance(results, dict):
        return
    for name in ("passed", "failed", "skipped"):
        _add_whole(row, f"{name}_tests", results.get(name))
    total = results.get("total")
    if not _is_number(total):
        total = sum(int(row.get(f"{name}_tests", 0)) for name in ("passed", "failed", "skipped"))
    _add_whole(row, "total_tests", total)


def _add_details(row: Row, said: Any) -> Row | None:
    with contextlib.suppress(ValidationError):
        details = RunDetails.model_validate(said) if isinstance(said, dict) else None
        if details is not None:
            row["environment"] = details.model_dump_json(exclude_defaults=True)
            return detail_row(details)
    return None


def _head_sha(pull_request: Mapping[str, Any], payload: Mapping[str, Any]) -> Any:
    return _table(pull_request.get("head")).get("sha") or payload.get("head_sha")


def _table(value: Any) -> Mapping[str, Any]:
    # JavaScript finds nothing under a key of what is no table, and goes on.
    return value if isinstance(value, dict) else {}


def _add_text(row: Row, column: str, value: Any) -> None:
    if value:
        row[column] = _text(value)


def _add_time(row: Row, column: str, value: Any) -> None:
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        if value:
            row[column] = parse_time(value).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _add_whole(row: Row, column: str, value: Any) -> None:
    if _is_number(value) and 0 <= value <= MAX_COLUMN and value == int(value):
        row[column] = int(value)


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


def note_dispatched(store: Store, *, delivery_id: str, repository: str, at: float) -> bool:
    """Note that a pull request's job was dispatched, and return whether it is news.

    Args:
        store: of the jobs.
        delivery_id: of the webhook.
        repository: the downstream one.
        at: seconds since the epoch.
    """
    with store.transaction() as connection:
        return note_dispatch(connection, delivery_id=delivery_id, repository=repository, at=at)


def record_callback(store: Store, callback: Callback, *, repository: str, at: float, level: str = "") -> None:
    """Store one callback, whole or not at all.

    Args:
        store: of the jobs.
        callback: what was sent.
        repository: the downstream one, as the token vouches for it.
        at: seconds since the epoch.
        level: of the repository, L2 to L4; empty where there is none.

    Raises:
        CallbackRefusedError: a nightly that is not completed; a pull request's callback that was not
            dispatched, is a duplicate, or skips a state.
    """
    workflow = callback.workflow
    if callback.nightly and workflow.status != "completed":
        raise CallbackRefusedError(f"{callback.event_type} callbacks must have status 'completed'")
    step = Step(
        delivery_id=callback.delivery_id,
        repository=repository,
        run_id=workflow.run_id,
        run_attempt=workflow.run_attempt,
        job_name=workflow.job_name,
        status=workflow.status,
    )
    with store.transaction() as connection:
        metrics = {} if callback.nightly else advance(connection, step, at)
        row = row_of(callback, repository=repository, metrics=metrics, level=level)
        put(connection, row, detail_of(callback), at)
