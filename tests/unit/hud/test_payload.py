from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ci.core.errors import BadFileError
from ci.hud.callback import MAX_BYTES, Callback, is_web_url, parse_time
from ci.hud.checks import check
from ci.hud.payload import (
    COUNT_OF_VERDICT,
    RunIdentity,
    Ways,
    check_run_of,
    conclusion_of,
    count_verdicts,
    ended_of,
    job_name_of,
    key_part,
    nightly_completed,
    report_identity,
    workflow_of,
)

REPOSITORY = "torch-spyre/torch-spyre"


def bent(payload: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """A copy with the value at a dotted key replaced, or taken out where it is `...`."""
    content = copy.deepcopy(payload)
    *parents, leaf = key.split(".")
    table = content
    for parent in parents:
        table = table[parent]
    if value is ...:
        del table[leaf]
    else:
        table[leaf] = value
    return content


def test_a_nightly_callback_has_the_contracts_fields(payload: dict[str, Any], identity: RunIdentity) -> None:
    sha = payload["delivery_id"]
    assert payload["event_type"] == "nightly"
    assert sha == "0123456789abcdef0123456789abcdef01234567"
    assert payload["payload"]["head_sha"] == sha
    assert payload["payload"]["repository"] == {"full_name": "pytorch/pytorch"}
    assert payload["workflow"] == {
        "status": "completed",
        "conclusion": "failure",
        "run_id": "4242",
        "run_attempt": 1,
        "name": "Nightly",
        "job_name": "pytorch (nightly-main)",
        "check_run_id": check_run_of(identity),
        "started_at": "2026-08-01T02:00:00.000+00:00",
        "completed_at": "2026-08-01T02:03:05.000+00:00",
        "test_results": {"passed": 7, "failed": 2, "skipped": 1, "total": 10},
        "artifact_url": "",
        "url": "https://ci.example/runs/4242",
        "schema_version": "1",
    }
    assert check(payload, repository=REPOSITORY) == []


def test_the_runs_details_travel_in_the_payload(payload: dict[str, Any]) -> None:
    details = payload["payload"]["spyre_ci"]
    assert (details["run"], details["stage"], details["percent"]) == ("r1", 1, 5)
    assert (details["device"], details["pytorch"], details["lane"]) == ("spyre", "2.13.0", "nightly-main")
    assert details["verdicts"] == {"passed": 7, "failed": 2, "xfailed": 1}


def test_every_verdict_is_counted_once() -> None:
    counts = count_verdicts(dict.fromkeys(COUNT_OF_VERDICT, 1))
    assert counts == {"passed": 3, "failed": 4, "skipped": 2, "total": 9}


def test_a_quarantined_failure_is_told_as_junit_tells_it_which_is_skipped() -> None:
    told = {"passed": 5, "failed": 3, "skipped": 1}
    assert count_verdicts(told, quarantined=2) == {"passed": 5, "failed": 1, "skipped": 3, "total": 9}
    identity = RunIdentity.model_validate(
        {"run_id": 7, "started_at": 1.0, "completed_at": 2.0, "pytorch_sha": "0123456"}
    )
    payload = nightly_completed(identity, run="r", verdicts={"failed": 2}, exit_code=0, quarantined=2)
    workflow = payload["workflow"]
    assert (workflow["conclusion"], workflow["test_results"]["failed"]) == ("success", 0)
    details = payload["payload"]["spyre_ci"]
    assert (details["verdicts"], details["quarantined"]) == ({"failed": 2}, 2)
    assert check(payload, repository=REPOSITORY) == []


def test_a_summary_says_how_many_failures_are_quarantined() -> None:
    who = {"run_id": 7, "started_at": 1.0, "completed_at": 2.0, "pytorch_sha": "0123456"}
    summary = {"identity": who, "run": "r", "verdicts": {"failed": 2}, "exit_code": 0}
    for quarantine, failed in (({"forgiven": 2}, 0), (None, 2), ({"forgiven": 0}, 2)):
        told = ended_of({**summary, "quarantine": quarantine}, Ways(environ={}), path=Path("s"))
        assert told["workflow"]["test_results"]["failed"] == failed
    for broken in ("x", {"forgiven": 3}, {"forgiven": "x"}):
        with pytest.raises(BadFileError):
            ended_of({**summary, "quarantine": broken}, Ways(environ={}), path=Path("s"))


@pytest.mark.parametrize("number", [4, -1])
def test_more_quarantined_failures_than_failed_are_refused(number: int) -> None:
    with pytest.raises(ValueError, match=f"{number} failures are quarantined of 3"):
        count_verdicts({"failed": 3}, quarantined=number)


@pytest.mark.parametrize(
    ("verdicts", "counted"),
    [
        (("failed", "hardware", "infrastructure", "not_run"), "failed"),
        (("passed", "flaky", "xpassed"), "passed"),
        (("skipped", "xfailed"), "skipped"),
    ],
)
def test_what_gave_no_pass_is_never_told_as_one(verdicts: tuple[str, ...], counted: str) -> None:
    for verdict in verdicts:
        none = {"passed": 0, "failed": 0, "skipped": 0}
        assert count_verdicts({verdict: 3}) == {**none, counted: 3, "total": 3}


@given(st.dictionaries(st.sampled_from(sorted(COUNT_OF_VERDICT)), st.integers(0, 10**7)))
def test_the_total_is_the_number_of_tests(verdicts: dict[str, int]) -> None:
    counts = count_verdicts(verdicts)
    assert counts["total"] == sum(verdicts.values())
    assert counts["total"] == counts["passed"] + counts["failed"] + counts["skipped"]


def test_an_unknown_verdict_is_refused_and_named() -> None:
    with pytest.raises(ValueError, match="'lost' is not a verdict; known are: passed, flaky"):
        count_verdicts({"lost": 1})


@pytest.mark.parametrize(
    ("exit_code", "conclusion"),
    [(0, "success"), (1, "failure"), (2, "failure"), (3, "failure"), (130, "cancelled")],
)
def test_the_exit_code_decides_the_conclusion(exit_code: int, conclusion: str) -> None:
    assert conclusion_of(exit_code) == conclusion


def test_a_conclusion_can_be_given(identity: RunIdentity) -> None:
    payload = nightly_completed(identity, run="r", verdicts={}, exit_code=3, conclusion="timed_out")
    assert payload["workflow"]["conclusion"] == "timed_out"
    assert check(payload, repository=REPOSITORY) == []


def test_attempts_without_a_check_run_do_not_share_a_row(identity: RunIdentity) -> None:
    again = identity.model_copy(update={"run_attempt": 2})
    keys = [
        Callback.model_validate(nightly_completed(one, run="r", verdicts={}, exit_code=0)).key(REPOSITORY)
        for one in (identity, again)
    ]
    assert keys[0].startswith(f"{REPOSITORY}/{identity.pytorch_sha}/Nightly/pytorch (nightly-main)/4242-1-")
    assert keys[0] != keys[1]


@pytest.mark.parametrize(
    "other", [{"run": "r2"}, {"workflow": "spyre/other"}, {"job_name": "b"}, {"lane": "b"}]
)
def test_runs_of_one_number_have_check_runs_of_their_own(
    identity: RunIdentity, other: dict[str, str]
) -> None:
    # A job may run us twice, and Jenkins counts the builds of each job from 1.
    assert check_run_of(identity) == check_run_of(identity.model_copy(update={"url": "x", "device": "y"}))
    assert check_run_of(identity) != check_run_of(identity.model_copy(update=other))


@pytest.mark.parametrize(
    ("job", "lane", "device", "name"),
    [
        ("pytorch", "", "spyre", "pytorch (spyre)"),
        ("pytorch", "nightly-main", "spyre", "pytorch (nightly-main)"),
        ("nightly-main / 3", "nightly-main", "spyre", "nightly-main / 3"),
        ("", "nightly-main", "spyre", "nightly-main"),
        ("pytorch", "", "", "pytorch"),
        ("", "", "", "spyre-ci"),
    ],
)
def test_a_job_is_named_with_what_tells_a_matrix_legs_apart(
    identity: RunIdentity, job: str, lane: str, device: str, name: str
) -> None:
    one = identity.model_copy(update={"job_name": job, "lane": lane, "device": device})
    assert job_name_of(one) == name


def test_the_check_run_of_the_ci_is_used(identity: RunIdentity) -> None:
    payload = nightly_completed(identity, run="r", verdicts={}, exit_code=0, check_run_id="77")
    assert payload["workflow"]["check_run_id"] == "77"


def test_names_the_relay_would_split_are_mended(identity: RunIdentity) -> None:
    odd = identity.model_copy(update={"job_name": "a: b\x00", "pytorch_sha": "2.6.0+sha256:ab/cd"})
    payload = nightly_completed(odd, run="r", verdicts={}, exit_code=0)
    assert payload["workflow"]["job_name"] == "a- b- (nightly-main)"
    assert payload["delivery_id"] == "2.6.0+sha256-ab-cd"
    assert check(payload, repository=REPOSITORY) == []


def test_a_run_without_names_gets_some(identity: RunIdentity) -> None:
    nothing = dict.fromkeys(("job_name", "workflow", "lane", "device", "pytorch_sha"), "")
    bare = identity.model_copy(update=nothing)
    payload = nightly_completed(bare, run="r", verdicts={}, exit_code=0)
    assert payload["workflow"]["name"] == payload["workflow"]["job_name"] == "spyre-ci"
    assert payload["delivery_id"] == "2.13.0"
    lane = identity.model_copy(update={"job_name": ""})
    named = nightly_completed(lane, run="r", verdicts={}, exit_code=0)
    assert named["workflow"]["job_name"] == "nightly-main"


@given(st.text())
def test_a_key_part_holds_nothing_a_key_is_split_at(text: str) -> None:
    part = key_part(text, otherwise="x")
    assert part
    assert ":" not in part
    assert all(character >= " " for character in part)


def test_epoch_times_become_iso(identity: RunIdentity) -> None:
    content = {**identity.model_dump(), "started_at": 0.5, "completed_at": 61}
    assert RunIdentity.model_validate(content).started_at == "1970-01-01T00:00:00.500+00:00"


WRONG: list[tuple[str, Any, str]] = [
    ("delivery_id", "", "delivery_id: String should have at least 1 character"),
    ("delivery_id", "a:b", "delivery_id: holds a colon"),
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
    ("workflow.job_name", "a:b", "workflow.job_name: holds a colon"),
    ("workflow.job_name", "\ud800", "workflow.job_name: "),
    ("workflow.check_run_id", None, "workflow.check_run_id: must be a whole number"),
    ("workflow.conclusion", "skipped", "workflow.conclusion: must be one of success, failure"),
    ("workflow.conclusion", None, "workflow.conclusion: must be one of success, failure"),
    ("workflow.started_at", None, "workflow.started_at: is missing"),
    ("workflow.started_at", "yesterday", "workflow.started_at: Invalid isoformat string"),
    ("workflow.started_at", "1969-12-31T23:00:00Z", "workflow.started_at: is outside the years 1970"),
    ("workflow.started_at", "2026-08-01T02:00:00", "workflow.started_at: has no offset from UTC"),
    ("workflow.completed_at", None, "workflow.completed_at: is missing"),
    ("workflow.completed_at", "2026-08-01T01:00:00Z", "workflow.completed_at: is before started_at"),
    ("workflow.test_results", None, "workflow.test_results: is missing"),
    ("workflow.test_results.failed", -1, "test_results.failed: Input should be greater than or equal to 0"),
    ("workflow.test_results.failed", 1.5, "test_results.failed: must be a whole number"),
    ("workflow.test_results.failed", float("1e999"), "it is no JSON"),
    ("workflow.test_results.failed", "2", "test_results.failed: must be a whole number"),
    ("workflow.test_results.total", 11, "total is 11, but passed + failed + skipped is 10"),
    ("workflow.url", "javascript:alert(1)", "workflow.url: is no http(s) URL"),
    ("workflow.artifact_url", "//example.org", "workflow.artifact_url: is no http(s) URL"),
    ("workflow.artifact_url", "http://[", "workflow.artifact_url: is no http(s) URL"),
    ("payload.spyre_ci.percent", 200, "payload.spyre_ci.percent: Input should be less than"),
    ("payload.spyre_ci.emulated", 0, "payload.spyre_ci.emulated: Input should be a valid boolean"),
    ("payload.filler", "x" * MAX_BYTES, f"bytes, more than the {MAX_BYTES} the relay takes"),
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
    ("payload.pull_request.head", ..., "payload.pull_request.head.sha: is no commit (seen: '')"),
    ("payload.pull_request.head.sha", "main", "payload.pull_request.head.sha: is no commit (seen: 'main')"),
    ("payload.pull_request.head.sha", "A" * 40, "payload.pull_request.head.sha: is no commit"),
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
    ("workflow.job_name", "linux: spyre", "workflow.job_name: holds a colon"),
    ("workflow.check_run_id", ..., "workflow.check_run_id: is missing"),
    ("workflow.check_run_id", "", "workflow.check_run_id."),
    ("workflow.check_run_id", " ", "workflow.check_run_id: is blank"),
    ("workflow.check_run_id", "1\nx", "workflow.check_run_id: holds a character that is not printable"),
    ("delivery_id", "d\x1b[31m", "delivery_id: holds a character that is not printable"),
    ("workflow.check_run_id", 1.5, "workflow.check_run_id"),
    ("workflow.started_at", ..., "workflow.started_at: is missing"),
    ("workflow.started_at", 1754013600, "workflow.started_at: Input should be a valid string"),
    ("workflow.started_at", "2300-01-01T00:00:00Z", "workflow.started_at: is outside the years"),
    ("workflow.url", "ftp://x", "workflow.url: is no http(s) URL"),
    ("workflow.url", "https://x/" + "y" * 8192, "workflow.url: String should have at most 8192"),
    ("workflow.schema_version", ..., "workflow.schema_version: must be '1' (seen: None)"),
    ("workflow.schema_version", "2", "workflow.schema_version: must be '1' (seen: '2')"),
    ("payload.filler", "x" * MAX_BYTES, f"bytes, more than the {MAX_BYTES} the relay takes"),
]


@pytest.mark.parametrize(("key", "value", "reason"), WRONG_OF_A_PULL_REQUEST)
def test_what_does_not_hold_of_a_pull_request_is_named(
    identity: RunIdentity, key: str, value: Any, reason: str
) -> None:
    payload = {
        "pull_request": {"number": 7, "head": {"sha": "a" * 40}},
        "repository": {"full_name": "pytorch/pytorch"},
    }
    workflow = workflow_of(identity, status="in_progress")
    good = {"event_type": "pull_request", "delivery_id": "d", "payload": payload, "workflow": workflow}
    assert check(good, repository=REPOSITORY) == []
    reasons = check(bent(good, key, value), repository=REPOSITORY)
    assert any(reason in one for one in reasons), reasons


def test_another_dispatched_event_needs_no_pull_request(identity: RunIdentity) -> None:
    workflow = workflow_of(identity, status="in_progress")
    push = {"event_type": "push", "delivery_id": "d", "payload": {"after": "x"}, "workflow": workflow}
    assert check(push, repository=REPOSITORY) == []


@pytest.mark.parametrize(("key", "value", "reason"), WRONG)
def test_what_does_not_hold_is_named_before_it_is_sent(
    payload: dict[str, Any], key: str, value: Any, reason: str
) -> None:
    reasons = check(bent(payload, key, value), repository=REPOSITORY)
    assert any(reason in one for one in reasons), reasons


def test_a_key_hud_cannot_hold_is_named(payload: dict[str, Any]) -> None:
    long = bent(bent(payload, "workflow.name", "n" * 1024), "workflow.job_name", "j" * 1024)
    assert check(long, repository=REPOSITORY) == ["the names together make a key of more than 2048 bytes"]


def test_a_repository_that_is_no_owner_and_name_is_named(payload: dict[str, Any]) -> None:
    assert check(payload, repository="spyre") == ["repository: is not owner/name (seen: 'spyre')"]


def test_ids_may_come_as_digits_and_whole_floats(payload: dict[str, Any]) -> None:
    good = bent(bent(payload, "workflow.run_id", "42"), "workflow.test_results.passed", 7.0)
    callback = Callback.model_validate(good)
    assert callback.workflow.run_id == 42
    assert callback.workflow.test_results is not None
    assert callback.workflow.test_results.passed == 7


def test_reports_of_one_job_differ_by_attempt_and_status(payload: dict[str, Any]) -> None:
    variants = [
        payload,
        bent(payload, "workflow.run_attempt", 2),
        bent(payload, "workflow.status", "in_progress"),
    ]
    assert len({report_identity(one, repository=REPOSITORY) for one in variants}) == 3


@pytest.mark.parametrize("key", ["workflow.completed_at", "workflow.test_results", "workflow.conclusion"])
def test_a_corrected_report_keeps_its_identity(payload: dict[str, Any], key: str) -> None:
    corrected = bent(payload, key, None)
    assert report_identity(corrected, repository=REPOSITORY) == report_identity(
        payload, repository=REPOSITORY
    )


def test_unknown_keys_of_a_dispatch_are_echoed(payload: dict[str, Any]) -> None:
    callback = Callback.model_validate(bent(payload, "payload.action", "opened"))
    assert callback.model_dump()["payload"]["action"] == "opened"


@pytest.mark.parametrize("text", ["2026-08-01T02:00:00Z", "2026-08-01T04:00:00+02:00", "2026-08-01T02:00:00"])
def test_times_are_read_as_utc(text: str) -> None:
    assert parse_time(text).isoformat() == "2026-08-01T02:00:00+00:00"


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


def test_an_identity_without_a_run_id_is_refused(identity: RunIdentity) -> None:
    with pytest.raises(ValidationError, match="run_id"):
        RunIdentity.model_validate({**identity.model_dump(), "run_id": 0})
