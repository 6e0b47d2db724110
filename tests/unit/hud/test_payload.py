"""What a summary becomes, which job of a CI says it, and by what names HUD knows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import BadFileError
from ci.hud.checks import check
from ci.hud.dispatched import Dispatch
from ci.hud.payload import (
    RunIdentity,
    Ways,
    check_run_of,
    count_verdicts,
    delivery_of,
    ended_of,
    job_name_of,
    key_part,
    report_identity,
)
from ci.record.identity import EMULATED

from .conftest import REPOSITORY, SHA, bent, told_of

VERDICTS = {"passed": 4, "failed": 1, "not_run": 5}
GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_RUN_ID": "77",
    "GITHUB_RUN_ATTEMPT": "2",
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "o/r",
}
JENKINS = {"JENKINS_URL": "https://j", "BUILD_NUMBER": "7", "BUILD_URL": "https://j/job/n/7/"}


def workflow(identity: RunIdentity, environ: dict[str, str] | None = None, **ways: Any) -> dict[str, Any]:
    body = told_of(identity, Ways(environ=environ or {}, **ways), verdicts=VERDICTS, exit_code=3)
    assert check(body, repository=REPOSITORY) == []
    told: dict[str, Any] = body["workflow"]
    return told


def details(identity: RunIdentity, **summary: Any) -> dict[str, Any]:
    body = told_of(identity, **summary)
    assert check(body, repository=REPOSITORY) == []
    told: dict[str, Any] = body["payload"]["spyre_ci"]
    return told


def test_a_nightly_callback_has_the_contracts_fields(payload: dict[str, Any], identity: RunIdentity) -> None:
    told = payload["payload"].pop("spyre_ci")
    assert payload == {
        "event_type": "nightly",
        "delivery_id": SHA,
        "payload": {"head_sha": SHA, "repository": {"full_name": "pytorch/pytorch"}},
        "workflow": {
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
        },
    }
    wanted = {
        "run": "r1", "stage": 1, "percent": 5, "device": "spyre", "pytorch": "2.13.0", "lane": "nightly-main",
        "provider": "github", "verdicts": {"passed": 7, "failed": 2, "xfailed": 1}, "quarantined": 0,
        # 0 in scope is nobody's count.
        "cards": None, "in_scope": None, "selected": None, "first_failure_seconds": None,
    }  # fmt: skip
    assert {key: told[key] for key in wanted} == wanted
    assert "emulated" not in told


def test_shares_cards_and_time_to_signal_are_told(identity: RunIdentity) -> None:
    shares = {
        "selected": {"count": 11, "of_count": 0.05, "seconds": 22.0, "of_seconds": 0.05},
        "run": {"count": 9, "of_count": 0.04, "seconds": 18.0, "of_seconds": 0.04},
        "passed": {"count": 6, "of_count": 0.02, "seconds": None, "of_seconds": None},
    }
    told = details(identity, in_scope=220, in_scope_s=440.0, shares=shares, cards=128, first_failure_s=6.25)
    wanted = {
        "cards": 128, "in_scope": 220, "selected": 11, "ran": 9, "passed": 6, "in_scope_seconds": 440.0,
        "selected_seconds": 22.0, "ran_seconds": 18.0, "passed_seconds": None, "first_failure_seconds": 6.25,
    }  # fmt: skip
    assert {key: told[key] for key in wanted} == wanted
    assert details(identity, in_scope=0)["in_scope"] is None


@pytest.mark.parametrize(("back_end", "emulated"), [(EMULATED, True), ("torch_spyre 1.2", False)])
def test_a_run_of_the_emulated_device_says_so(identity: RunIdentity, back_end: str, emulated: bool) -> None:
    told = details(identity.model_copy(update={"back_end": back_end}))
    assert told.get("emulated", False) is emulated


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"shares": "x"}, None),
        ({"shares": {"run": 7}}, None),
        ({"shares": {"run": {}}}, "the key 'count' is missing"),
        ({"quarantine": "x"}, None),
        ({"quarantine": {"forgiven": 2}}, "2 failures are quarantined, but only 1 failed"),
        ({"quarantine": {"forgiven": -1}}, "-1 failures are quarantined, but only 1 failed"),
        ({"quarantine": {"forgiven": "x"}}, None),
        ({"verdicts": {"lost": 1}}, "'lost' is not a verdict; known are: passed, flaky"),
        ({"verdicts": None}, None),
        ({"exit_code": "x"}, None),
    ],
)
def test_a_summary_that_cannot_be_read_is_refused(
    identity: RunIdentity, broken: dict[str, Any], said: str | None
) -> None:
    with pytest.raises(BadFileError, match=said) as caught:
        told_of(identity, **({"verdicts": {"failed": 1}} | broken))
    assert caught.value.remedy == "write it again with `spyre-ci report`"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"run_id": 0}, r"identity\.run_id"),
        ({"started_at": 5}, r"identity\.started_at"),
        ({"started_at": "soon"}, r"identity\.started_at"),
    ],
)
def test_an_identity_that_is_none_is_refused(
    identity: RunIdentity, change: dict[str, Any], said: str
) -> None:
    summary = {"identity": identity.model_dump() | change, "run": "r", "verdicts": {}, "exit_code": 0}
    with pytest.raises(BadFileError, match=said):
        ended_of(summary, Ways(environ={}), path=Path("s"))


def test_a_detail_that_does_not_hold_is_named_before_it_is_sent(identity: RunIdentity) -> None:
    reasons = check(told_of(identity, cards=-1), repository=REPOSITORY)
    assert reasons == ["payload.spyre_ci.cards: Input should be greater than or equal to 0 (seen: -1)"]


def test_an_artifacts_user_and_password_are_not_told(identity: RunIdentity) -> None:
    environ = {"SPYRE_CI_ARTIFACT_URL": "https://me:hunter2@a.example/r?X-Amz-Signature=1"}
    assert workflow(identity, environ)["artifact_url"] == "https://a.example/r?X-Amz-Signature=1"


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


@pytest.mark.parametrize(("quarantine", "forgiven"), [({"forgiven": 2}, 2), (None, 0), ({"forgiven": 0}, 0)])
def test_a_quarantined_failure_is_told_as_junit_tells_it_which_is_skipped(
    identity: RunIdentity, quarantine: Any, forgiven: int
) -> None:
    verdicts = {"passed": 5, "failed": 3, "skipped": 1}
    body = told_of(identity, verdicts=verdicts, quarantine=quarantine)
    counts = {"passed": 5, "failed": 3 - forgiven, "skipped": 1 + forgiven, "total": 9}
    assert body["workflow"]["test_results"] == counts
    told = body["payload"]["spyre_ci"]
    assert (told["verdicts"], told["quarantined"]) == (verdicts, forgiven)


@pytest.mark.parametrize(
    ("exit_code", "conclusion"),
    [(0, "success"), (1, "failure"), (2, "failure"), (3, "failure"), (130, "cancelled")],
)
def test_the_exit_code_decides_the_conclusion(identity: RunIdentity, exit_code: int, conclusion: str) -> None:
    assert told_of(identity, exit_code=exit_code)["workflow"]["conclusion"] == conclusion


def test_a_cancelled_run_is_told_as_one_and_its_pass_rate_does_not_fall(identity: RunIdentity) -> None:
    job = workflow(identity, cancelled=True)
    assert job["conclusion"] == "cancelled"
    assert job["test_results"] == {"passed": 4, "failed": 1, "skipped": 0, "total": 5}
    job = workflow(identity)
    assert job["conclusion"] == "failure"
    assert job["test_results"] == {"passed": 4, "failed": 6, "skipped": 0, "total": 10}


@pytest.mark.parametrize(
    ("environ", "begun", "told"),
    [
        (GITHUB, {}, ("77", 2, "https://github.com/o/r/actions/runs/77")),
        (GITHUB, {"run_id": 77, "run_attempt": 1}, ("77", 2, "https://github.com/o/r/actions/runs/77")),
        (JENKINS, {}, ("7", 1, "https://j/job/n/7/")),
        # On a laptop: as it was begun, else as it was planned.
        ({}, {"run_id": 77, "run_attempt": 2}, ("77", 2, "https://ci.example/runs/4242")),
        ({}, {}, ("4242", 1, "https://ci.example/runs/4242")),
    ],
)
def test_run_and_attempt_are_those_of_the_job_that_sends(
    identity: RunIdentity, environ: dict[str, str], begun: dict[str, int], told: tuple[str, int, str]
) -> None:
    payload = {"delivery_id": "d", "event_type": "push"}
    dispatch = Dispatch(client_payload=payload, check_run_id="9", **begun) if begun else None
    job = workflow(identity, environ, dispatch=dispatch)
    assert (job["run_id"], job["run_attempt"], job["url"]) == told
    assert job["check_run_id"] == ("9" if begun else check_run_of(Ways(environ=environ).job(identity)))


def test_a_jenkins_build_has_an_address_that_the_link_of_hud_keeps(identity: RunIdentity) -> None:
    build = identity.model_copy(update={"provider": "jenkins", "url": "https://j/job/n/7/"})
    assert workflow(build)["url"] == "https://j/job/n/7/#"
    assert workflow(build.model_copy(update={"url": ""}))["url"] == ""


@pytest.mark.parametrize(
    "other",
    [{"run": "r2"}, {"workflow": "spyre/other"}, {"job_name": "b"}, {"lane": "b"}, {"run_attempt": 2}],
)
def test_runs_of_one_number_have_check_runs_of_their_own(
    identity: RunIdentity, other: dict[str, Any]
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
        ("a: b\x00", "", "", "a- b"),
        ("", "", "", "spyre-ci"),
    ],
)
def test_a_job_is_named_with_what_tells_a_matrix_legs_apart(
    identity: RunIdentity, job: str, lane: str, device: str, name: str
) -> None:
    one = identity.model_copy(update={"job_name": job, "lane": lane, "device": device})
    assert job_name_of(one) == name
    assert workflow(one, job_name=job)["job_name"] == name


def test_a_workflow_without_a_name_gets_one(identity: RunIdentity) -> None:
    assert workflow(identity.model_copy(update={"workflow": ""}))["name"] == "spyre-ci"


@pytest.mark.parametrize(
    ("sha", "commit", "wanted"),
    [
        ("a" * 40, "b" * 40, "a" * 40),
        ("2.13.0+sha256.0f", "b" * 40, "b" * 40),
        ("2.13.0+sha256.0f", "", "2.13.0+sha256.0f"),
        ("2.6.0+sha256:ab/cd", "", "2.6.0+sha256-ab-cd"),
        ("", "", "2.13.0"),
    ],
)
def test_a_tree_without_git_is_known_by_the_commit_of_its_version(
    identity: RunIdentity, sha: str, commit: str, wanted: str
) -> None:
    named = {"pytorch_sha": sha, "pytorch_commit": commit}
    assert delivery_of(identity.model_copy(update=named)) == wanted


@given(st.text())
def test_a_key_part_holds_nothing_a_key_is_split_at(text: str) -> None:
    part = key_part(text, otherwise="x")
    assert part
    assert ":" not in part
    assert all(character >= " " for character in part)


def test_reports_of_one_job_differ_by_attempt_and_status_alone(payload: dict[str, Any]) -> None:
    def identities(*changes: tuple[str, Any]) -> set[str]:
        return {report_identity(bent(payload, *one), repository=REPOSITORY) for one in changes}

    own = ("workflow.status", "completed")
    assert len(identities(own, ("workflow.run_attempt", 2), ("workflow.status", "in_progress"))) == 3
    corrected = [(f"workflow.{key}", None) for key in ("completed_at", "test_results", "conclusion")]
    assert len(identities(own, *corrected)) == 1
