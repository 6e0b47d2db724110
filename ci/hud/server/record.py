"""The row of `crcr_workflow_job` a callback makes; pure. What is not defined is left out, so it merges."""

from __future__ import annotations

from collections.abc import Mapping

from ci.hud.callback import Callback, RunDetails, Workflow, parse_time
from ci.hud.identity import job_number, stored_number

Row = dict[str, str | int | float]


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
