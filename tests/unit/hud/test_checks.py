"""What does not hold is named before it is sent."""

from __future__ import annotations

from typing import Any

import pytest

from ci.hud.callback import MAX_BYTES, Callback, is_web_url
from ci.hud.checks import check
from ci.hud.dispatched import Dispatch
from ci.hud.payload import RunIdentity, Ways, begun_of

from .conftest import REPOSITORY, bent

WRONG: list[tuple[str, Any, str]] = [
    ("delivery_id", "", "delivery_id: String should have at least 1 character"),
    ("delivery_id", "a:b", "delivery_id: contains a colon"),
    ("delivery_id", "other", "payload.head_sha: must be the delivery_id"),
    ("workflow", ..., "workflow: is missing"),
    ("workflow.status", "queued", "workflow.status: Input should be 'in_progress' or 'completed'"),
    ("workflow.status", "in_progress", "workflow.status: a nightly reports `completed` only"),
    ("workflow.run_id", "0b1c-uuid", "workflow.run_id: must be a whole number"),
    ("workflow.run_id", 0, "workflow.run_id: Input should be greater than or equal to 1"),
    ("workflow.run_id", True, "workflow.run_id: must be a whole number"),
    ("workflow.run_id", 10**30, "workflow.run_id: Input should be less than or equal to"),
    ("workflow.run_attempt", 0, "workflow.run_attempt: Input should be greater"),
    ("workflow.name", "", "workflow.name: String should have at least 1 character"),
    ("workflow.job_name", ..., "workflow.job_name: is missing"),
    ("workflow.job_name", "a:b", "workflow.job_name: contains a colon"),
    ("workflow.job_name", "\ud800", "workflow.job_name: "),
    ("workflow.check_run_id", None, "workflow.check_run_id: must be a whole number"),
    ("workflow.conclusion", "skipped", "workflow.conclusion: must be one of success, failure"),
    ("workflow.conclusion", None, "workflow.conclusion: must be one of success, failure"),
    ("workflow.started_at", None, "workflow.started_at: is missing"),
    ("workflow.started_at", "yesterday", "workflow.started_at: Invalid isoformat string"),
    ("workflow.started_at", "1969-12-31T23:00:00Z", "workflow.started_at: is outside the years 1970"),
    ("workflow.started_at", "2026-08-01T02:00:00", "workflow.started_at: has no UTC offset"),
    ("workflow.completed_at", None, "workflow.completed_at: is missing"),
    ("workflow.completed_at", "2026-08-01T01:00:00Z", "workflow.completed_at: is before started_at"),
    ("workflow.test_results", None, "workflow.test_results: is missing"),
    ("workflow.test_results.failed", -1, "test_results.failed: Input should be greater than or equal to 0"),
    ("workflow.test_results.failed", 1.5, "test_results.failed: must be a whole number"),
    ("workflow.test_results.failed", float("1e999"), "the report is not valid JSON"),
    ("workflow.test_results.failed", "2", "test_results.failed: must be a whole number"),
    ("workflow.test_results.total", 11, "total is 11, but passed + failed + skipped is 10"),
    ("workflow.url", "javascript:alert(1)", "workflow.url: is not an http(s) URL"),
    ("workflow.artifact_url", "//example.org", "workflow.artifact_url: is not an http(s) URL"),
    ("workflow.artifact_url", "http://[", "workflow.artifact_url: is not an http(s) URL"),
    ("payload.spyre_ci.percent", 200, "payload.spyre_ci.percent: Input should be less than"),
    ("payload.spyre_ci.emulated", 0, "payload.spyre_ci.emulated: Input should be a valid boolean"),
    ("payload.filler", "x" * MAX_BYTES, f"bytes, and the relay accepts at most {MAX_BYTES}"),
]
WRONG_OF_A_PULL_REQUEST: list[tuple[str, Any, str]] = [
    ("event_type", "", "event_type: is missing"),
    ("event_type", " ", "event_type: is missing"),
    ("event_type", None, "event_type: Input should be a valid string"),
    ("event_type", "x" * 65, "event_type: String should have at most 64 characters"),
    ("delivery_id", None, "delivery_id: Input should be a valid string"),
    ("payload", [], "payload: Input should be a valid dictionary"),
    ("payload.pull_request", ..., "payload.pull_request.number: is missing"),
    ("payload.pull_request", None, "payload.pull_request.number: is missing"),
    ("payload.pull_request.number", 0, "payload.pull_request.number: is missing"),
    ("payload.pull_request.number", -1, "payload.pull_request.number: Input should be greater"),
    ("payload.pull_request.number", "7", "payload.pull_request.number: must be a whole number"),
    ("payload.pull_request.head", ..., "payload.pull_request.head.sha: is not a commit (seen: '')"),
    (
        "payload.pull_request.head.sha",
        "main",
        "payload.pull_request.head.sha: is not a commit (seen: 'main')",
    ),
    ("payload.pull_request.head.sha", "A" * 40, "payload.pull_request.head.sha: is not a commit"),
    ("payload.repository", ..., "payload.repository.full_name: is missing"),
    ("payload.repository", {"id": 1}, "payload.repository.full_name: is missing"),
    ("workflow.status", ..., "workflow.status: is missing"),
    ("workflow.status", "timed_out", "workflow.status: Input should be 'in_progress' or 'completed'"),
    ("workflow.conclusion", "success", "workflow.conclusion: is for `completed` only (seen: 'success')"),
    ("workflow.run_id", ..., "workflow.run_id: is missing"),
    ("workflow.run_id", "8b4a-uuid", "workflow.run_id: must be a whole number"),
    ("workflow.run_id", None, "workflow.run_id: must be a whole number"),
    ("workflow.run_attempt", "two", "workflow.run_attempt: must be a whole number"),
    ("workflow.run_attempt", 2**32, "workflow.run_attempt: Input should be less than"),
    ("workflow.name", ..., "workflow.name: is missing"),
    ("workflow.name", "  ", "workflow.name: is blank"),
    ("workflow.job_name", " ", "workflow.job_name: is blank"),
    ("workflow.job_name", "linux: spyre", "workflow.job_name: contains a colon"),
    ("workflow.check_run_id", ..., "workflow.check_run_id: is missing"),
    ("workflow.check_run_id", "", "workflow.check_run_id."),
    ("workflow.check_run_id", " ", "workflow.check_run_id: is blank"),
    ("workflow.check_run_id", "1\nx", "workflow.check_run_id: contains a character that is not printable"),
    ("delivery_id", "d\x1b[31m", "delivery_id: contains a character that is not printable"),
    ("workflow.check_run_id", 1.5, "workflow.check_run_id"),
    ("workflow.started_at", ..., "workflow.started_at: is missing"),
    ("workflow.started_at", 1754013600, "workflow.started_at: Input should be a valid string"),
    ("workflow.started_at", "2300-01-01T00:00:00Z", "workflow.started_at: is outside the years"),
    ("workflow.url", "ftp://x", "workflow.url: is not an http(s) URL"),
    ("workflow.url", "https://x/" + "y" * 8192, "workflow.url: String should have at most 8192"),
    ("workflow.schema_version", ..., "workflow.schema_version: must be '1' (seen: None)"),
    ("workflow.schema_version", "2", "workflow.schema_version: must be '1' (seen: '2')"),
    ("payload.filler", "x" * MAX_BYTES, f"bytes, and the relay accepts at most {MAX_BYTES}"),
]


@pytest.fixture
def begun(identity: RunIdentity) -> dict[str, Any]:
    """A pull request's begin."""
    payload = {
        "pull_request": {"number": 7, "head": {"sha": "a" * 40}},
        "repository": {"full_name": "pytorch/pytorch"},
    }
    dispatch = Dispatch(client_payload={"event_type": "pull_request", "delivery_id": "d", "payload": payload})
    body = begun_of(identity, Ways(environ={}, dispatch=dispatch))
    assert body is not None
    return body


@pytest.mark.parametrize(("key", "value", "reason"), WRONG)
def test_what_does_not_hold_of_a_nightly_is_named(
    payload: dict[str, Any], key: str, value: Any, reason: str
) -> None:
    assert check(payload, repository=REPOSITORY) == []
    reasons = check(bent(payload, key, value), repository=REPOSITORY)
    assert any(reason in one for one in reasons), reasons


@pytest.mark.parametrize(("key", "value", "reason"), WRONG_OF_A_PULL_REQUEST)
def test_what_does_not_hold_of_a_pull_request_is_named(
    begun: dict[str, Any], key: str, value: Any, reason: str
) -> None:
    assert check(begun, repository=REPOSITORY) == []
    reasons = check(bent(begun, key, value), repository=REPOSITORY)
    assert any(reason in one for one in reasons), reasons


def test_another_dispatched_event_needs_no_pull_request(begun: dict[str, Any]) -> None:
    assert check({**begun, "event_type": "push", "payload": {"after": "x"}}, repository=REPOSITORY) == []


def test_a_key_hud_cannot_hold_and_a_repository_that_is_none_are_named(payload: dict[str, Any]) -> None:
    long = bent(bent(payload, "workflow.name", "n" * 1024), "workflow.job_name", "j" * 1024)
    assert check(long, repository=REPOSITORY) == [
        "the job's key, made of its names, has more than 2048 bytes"
    ]
    assert check(payload, repository="spyre") == ["repository: is not owner/name (seen: 'spyre')"]


def test_ids_may_come_as_digits_and_whole_floats_and_unknown_keys_are_echoed(payload: dict[str, Any]) -> None:
    good = bent(bent(payload, "workflow.run_id", "42"), "workflow.test_results.passed", 7.0)
    callback = Callback.model_validate(bent(good, "payload.action", "opened"))
    assert callback.workflow.run_id == 42
    assert callback.workflow.test_results is not None
    assert callback.workflow.test_results.passed == 7
    assert callback.model_dump()["payload"]["action"] == "opened"


@pytest.mark.parametrize(
    ("url", "web"),
    [
        ("https://x/y", True),
        ("HTTP://x", True),
        ("javascript:alert(1)", False),
        ("data:text/html,x", False),
        (" javascript:alert(1)", False),
        ("/relative", False),
        ("", False),
    ],
)
def test_only_http_urls_are_links(url: str, web: bool) -> None:
    assert is_web_url(url) is web
