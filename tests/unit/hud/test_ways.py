"""What a summary says beside its counts, and which job of a CI says it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci.core.errors import BadFileError
from ci.hud.checks import check
from ci.hud.dispatched import Dispatch
from ci.hud.payload import RunIdentity, Ways, check_run_of, delivery_of, ended_of
from ci.record.identity import EMULATED

SHARES = {
    "selected": {"count": 11, "of_count": 0.05, "seconds": 22.0, "of_seconds": 0.05},
    "run": {"count": 9, "of_count": 0.04, "seconds": 18.0, "of_seconds": 0.04},
    "passed": {"count": 6, "of_count": 0.02, "seconds": None, "of_seconds": None},
}


def details(identity: RunIdentity, **more: Any) -> dict[str, Any]:
    summary = {
        "identity": identity.model_dump(),
        "run": "r",
        "verdicts": {"passed": 1},
        "exit_code": 0,
        **more,
    }
    body = ended_of(summary, Ways(environ={}), path=Path("s"))
    assert check(body, repository="o/r") == []
    told: dict[str, Any] = body["payload"]["spyre_ci"]
    return told


def test_shares_cards_and_time_to_signal_are_told(identity: RunIdentity) -> None:
    told = details(identity, in_scope=220, in_scope_s=440.0, shares=SHARES, cards=128, first_failure_s=6.25)
    assert {key: told[key] for key in ("cards", "in_scope", "selected", "ran", "passed")} == {
        "cards": 128,
        "in_scope": 220,
        "selected": 11,
        "ran": 9,
        "passed": 6,
    }
    seconds = (
        "in_scope_seconds",
        "selected_seconds",
        "ran_seconds",
        "passed_seconds",
        "first_failure_seconds",
    )
    assert [told[key] for key in seconds] == [440.0, 22.0, 18.0, None, 6.25]


def test_a_run_of_the_emulated_device_says_so(identity: RunIdentity) -> None:
    summary = {"run": "r", "verdicts": {}, "exit_code": 0}
    for back_end, emulated in ((EMULATED, True), ("torch_spyre 1.2", False)):
        one = {**summary, "identity": {**identity.model_dump(), "back_end": back_end}}
        told = ended_of(one, Ways(environ={}), path=Path("s"))["payload"]["spyre_ci"]
        assert told.get("emulated", False) is emulated


def test_a_summary_without_them_leaves_them_out(identity: RunIdentity) -> None:
    told = details(identity)
    assert all(told[key] is None for key in ("cards", "in_scope", "selected", "first_failure_seconds"))
    # 0 in scope is nobody's count.
    assert details(identity, in_scope=0)["in_scope"] is None


@pytest.mark.parametrize("shares", [[], "x", {"run": 7}, {"run": {}}])
def test_shares_that_are_none_are_refused_or_passed_over(identity: RunIdentity, shares: Any) -> None:
    summary = {
        "identity": identity.model_dump(), "run": "r", "verdicts": {}, "exit_code": 0, "shares": shares,
    }  # fmt: skip
    if not shares:
        assert ended_of(summary, Ways(environ={}), path=Path("s"))
        return
    with pytest.raises(BadFileError):
        ended_of(summary, Ways(environ={}), path=Path("s"))


def test_a_detail_that_does_not_hold_is_named_before_it_is_sent(identity: RunIdentity) -> None:
    summary = {"identity": identity.model_dump(), "run": "r", "verdicts": {}, "exit_code": 0, "cards": -1}
    reasons = check(ended_of(summary, Ways(environ={}), path=Path("s")), repository="o/r")
    assert reasons == ["payload.spyre_ci.cards: Input should be greater than or equal to 0 (seen: -1)"]


def test_an_artifacts_user_and_password_are_not_told(identity: RunIdentity) -> None:
    summary = {"identity": identity.model_dump(), "run": "r", "verdicts": {}, "exit_code": 0}
    environ = {"SPYRE_CI_ARTIFACT_URL": "https://me:hunter2@a.example/r?X-Amz-Signature=1"}
    body = ended_of(summary, Ways(environ=environ), path=Path("s"))
    assert body["workflow"]["artifact_url"] == "https://a.example/r?X-Amz-Signature=1"


GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_RUN_ID": "77",
    "GITHUB_RUN_ATTEMPT": "2",
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "o/r",
}
JENKINS = {"JENKINS_URL": "https://j", "BUILD_NUMBER": "7", "BUILD_URL": "https://j/job/n/7/"}


def workflow(identity: RunIdentity, **ways: Any) -> dict[str, Any]:
    summary = {"identity": identity.model_dump(), "run": "r", "exit_code": 3}
    summary["verdicts"] = {"passed": 4, "failed": 1, "not_run": 5}
    body = ended_of(summary, Ways(**ways), path=Path("s"))
    assert check(body, repository="o/r") == []
    told: dict[str, Any] = body["workflow"]
    return told


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
    job = workflow(identity, environ=environ, dispatch=dispatch)
    assert (job["run_id"], job["run_attempt"], job["url"]) == told
    assert job["check_run_id"] == ("9" if begun else check_run_of(Ways(environ=environ).job(identity)))


def test_numbers_that_hud_declares_as_strings_are_strings(identity: RunIdentity) -> None:
    job = workflow(identity, environ={"SPYRE_CI_CHECK_RUN_ID": "53211"})
    assert (job["run_id"], job["check_run_id"]) == ("4242", "53211")
    assert isinstance(workflow(identity, environ={})["check_run_id"], str)


def test_a_jenkins_build_has_an_address_that_the_link_of_hud_keeps(identity: RunIdentity) -> None:
    build = identity.model_copy(update={"provider": "jenkins", "url": "https://j/job/n/7/"})
    assert workflow(build, environ={})["url"] == "https://j/job/n/7/#"
    assert workflow(build.model_copy(update={"url": ""}), environ={})["url"] == ""


def test_a_job_name_of_the_settings_says_what_the_check_is(identity: RunIdentity) -> None:
    assert workflow(identity, environ={}, job_name="PyTorch tests")["job_name"] == (
        "PyTorch tests (nightly-main)"
    )
    assert workflow(identity, environ={})["job_name"] == "pytorch (nightly-main)"


def test_a_cancelled_run_is_told_as_one_and_its_pass_rate_does_not_fall(identity: RunIdentity) -> None:
    job = workflow(identity, environ={}, cancelled=True)
    assert job["conclusion"] == "cancelled"
    assert job["test_results"] == {"passed": 4, "failed": 1, "skipped": 0, "total": 5}
    job = workflow(identity, environ={})
    assert job["conclusion"] == "failure"
    assert job["test_results"] == {"passed": 4, "failed": 6, "skipped": 0, "total": 10}


@pytest.mark.parametrize(
    ("sha", "commit", "wanted"),
    [
        ("a" * 40, "b" * 40, "a" * 40),
        ("2.13.0+sha256.0f", "b" * 40, "b" * 40),
        ("2.13.0+sha256.0f", "", "2.13.0+sha256.0f"),
        ("", "", "2.13.0"),
    ],
)
def test_a_tree_without_git_is_known_by_the_commit_of_its_version(
    identity: RunIdentity, sha: str, commit: str, wanted: str
) -> None:
    named = {"pytorch_sha": sha, "pytorch_commit": commit}
    assert delivery_of(identity.model_copy(update=named)) == wanted
