"""What is checked before any callback is sent, each with its reason; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from ci.hud.callback import MAX_BYTES, Callback, Workflow, explain, is_web_url
from ci.hud.payload import SCHEMA_VERSION, encode

CONCLUSIONS = ("success", "failure", "cancelled", "timed_out")
PULL_REQUEST = "pull_request"
# HUD keeps a row under its dynamoKey in DynamoDB, whose keys end at 2,048 bytes.
MAX_KEY_BYTES = 2048
_NAMES = ("name", "job_name", "check_run_id")


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
        return [f"the report is not valid JSON: {error}"]
    reasons = [
        *_check_keys(callback, repository),
        *_check_event(callback),
        *_check_job(callback.workflow),
        *_check_times(callback.workflow),
    ]
    if size > MAX_BYTES:
        reasons.append(f"the report has {size} bytes, and the relay accepts at most {MAX_BYTES}")
    return reasons


def _check_keys(callback: Callback, repository: str) -> Iterator[str]:
    names = {"delivery_id": callback.delivery_id}
    names |= {f"workflow.{key}": str(getattr(callback.workflow, key)) for key in _NAMES}
    for key, value in names.items():
        if not value.strip():
            yield f"{key}: is blank"
        elif not value.isprintable():
            yield f"{key}: contains a character that is not printable (seen: {value[:80]!r})"
    for key in ("workflow.job_name", "delivery_id"):
        if ":" in names[key]:
            yield f"{key}: contains a colon, at which the relay splits its keys (seen: {names[key]!r})"
    if (name := names["workflow.job_name"]).isdigit():
        yield f"workflow.job_name: must not be a number, which the relay cannot time out (seen: {name!r})"
    if not re.fullmatch(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+", repository):
        yield f"repository: is not owner/name (seen: {repository!r})"
    if len(callback.key(repository).encode("utf-8", "replace")) > MAX_KEY_BYTES:
        yield f"the job's key, made of its names, has more than {MAX_KEY_BYTES} bytes"


def _check_event(callback: Callback) -> Iterator[str]:
    payload = callback.payload
    if callback.nightly:
        if callback.workflow.status != "completed":
            yield f"workflow.status: a {callback.event_type} reports `completed` only"
        if payload.head_sha != callback.delivery_id:
            yield "payload.head_sha: must be the delivery_id, the PyTorch commit"
    elif not callback.event_type.strip():
        yield "event_type: is missing; it is copied from the dispatch, or `nightly` for a self-reported run"
    elif callback.event_type == PULL_REQUEST:
        pull_request = payload.pull_request
        if pull_request is None or pull_request.number < 1:
            yield "payload.pull_request.number: is missing; it is copied from the dispatch"
        elif not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", pull_request.head.sha):
            yield f"payload.pull_request.head.sha: is not a commit (seen: {pull_request.head.sha[:80]!r})"
        if "full_name" not in payload.repository.model_fields_set:
            yield "payload.repository.full_name: is missing; it is copied from the dispatch"


def _check_job(workflow: Workflow) -> Iterator[str]:
    version, conclusion = workflow.schema_version, workflow.conclusion
    if version != SCHEMA_VERSION:
        yield f"workflow.schema_version: must be {SCHEMA_VERSION!r} (seen: {version!r})"
    if workflow.status == "in_progress" and conclusion is not None:
        yield f"workflow.conclusion: is for `completed` only (seen: {conclusion!r})"
    if workflow.status == "completed" and conclusion not in CONCLUSIONS:
        yield f"workflow.conclusion: must be one of {', '.join(CONCLUSIONS)} (seen: {conclusion!r})"
    if workflow.status == "completed" and workflow.test_results is None:
        yield "workflow.test_results: is missing"
    for key, url in (("url", workflow.url), ("artifact_url", workflow.artifact_url)):
        if url and not is_web_url(url):
            yield f"workflow.{key}: is not an http(s) URL (seen: {url[:80]!r})"


def _check_times(workflow: Workflow) -> Iterator[str]:
    if workflow.started_at is None:
        yield "workflow.started_at: is missing; almost no page of HUD shows a row without it"
    if workflow.status == "completed" and workflow.completed_at is None:
        yield "workflow.completed_at: is missing"
    for key, text in (("started_at", workflow.started_at), ("completed_at", workflow.completed_at)):
        if text and datetime.fromisoformat(text).tzinfo is None:
            yield f"workflow.{key}: has no UTC offset (seen: {text!r})"
