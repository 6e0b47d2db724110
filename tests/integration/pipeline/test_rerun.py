"""A comment asks for what failed to be run again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ci.pipeline import rerun, rerun_cli
from tests.github_api import GitHubApi, workflow_run

Spyre = Callable[..., int]
Event = Callable[[str, Any], None]


def asks(body: str = "/spyre-ci rerun", *, association: str = "CONTRIBUTOR", login: str = "helper") -> Any:
    return {
        "action": "created",
        "issue": {"number": 7, "state": "open", "user": {"login": "author"}, "pull_request": {"url": "u"}},
        "comment": {
            "id": 301,
            "body": body,
            "author_association": association,
            "user": {"login": login, "type": "User"},
        },
    }


def run_of_7(number: int, **told: Any) -> dict[str, Any]:
    """A run of pull request 7, which comes from a fork."""
    return workflow_run(number, **({"head": "fork/r"} | told))


@pytest.fixture
def runs(api: GitHubApi) -> dict[int, dict[str, Any]]:
    repository = api.repositories["o/r"]
    repository.comments[301] = {"id": 301, "issue": 7, "body": "", "user": {"login": "helper"}}
    repository.runs = {
        10: run_of_7(10, conclusion="failure"),
        11: run_of_7(11, conclusion="failure"),
        12: run_of_7(12, conclusion="cancelled", path=".github/workflows/ciflow.yml"),
        13: run_of_7(13, path=".github/workflows/other.yml"),
        14: run_of_7(14, conclusion="failure", sha="e" * 40),
        16: run_of_7(16, conclusion="failure", event="push", path=".github/workflows/release.yml"),
        17: run_of_7(17, conclusion="failure", head="o/r", path=".github/workflows/image.yml"),
        15: run_of_7(15, conclusion="failure", event="issue_comment", path=".github/workflows/rerun.yml"),
    }
    return repository.runs


def reactions(api: GitHubApi) -> list[str]:
    return [one["content"] for one in api.repositories["o/r"].reactions.get(301, [])]


def replies(api: GitHubApi) -> list[str]:
    return [one["body"] for number, one in api.repositories["o/r"].comments.items() if number != 301]


@pytest.mark.parametrize("body", ["/spyre-ci rerun", "/spyre-ci rerun failed\n\nthe runner went away"])
def test_a_contributor_has_the_failed_jobs_of_the_newest_runs_run_again(
    api: GitHubApi, runs: dict[int, dict[str, Any]], event: Event, spyre: Spyre, body: str
) -> None:
    event("issue_comment", asks(body))
    assert spyre("rerun") == 0
    assert {number for number, one in runs.items() if one["run_attempt"] == 2} == {11, 12}
    assert reactions(api) == ["rocket"]
    assert replies(api) == []


@pytest.mark.usefixtures("runs")
def test_the_author_may_too_and_strangers_are_told_kindly_why_not(
    api: GitHubApi, event: Event, spyre: Spyre
) -> None:
    event("issue_comment", asks("/spyre-ci rerun\n@all <b>", association="NONE", login="stranger"))
    assert spyre("rerun") == 0
    assert reactions(api) == ["confused"]
    assert replies(api) == [rerun.NOT_YOURS]
    assert api.asked("POST", "rerun-failed-jobs") == []
    event("issue_comment", asks(association="FIRST_TIME_CONTRIBUTOR", login="author"))
    assert spyre("rerun") == 0
    assert len(api.asked("POST", "rerun-failed-jobs")) == 2


def test_nothing_to_run_again_and_what_still_runs_are_said(
    api: GitHubApi, runs: dict[int, dict[str, Any]], event: Event, spyre: Spyre
) -> None:
    event("issue_comment", asks())
    for one in runs.values():
        one.update(conclusion="success")
    assert spyre("rerun") == 0
    runs[11].update(status="in_progress", conclusion=None)
    assert spyre("rerun") == 0
    assert replies(api) == [rerun.NOTHING, rerun.STILL]
    assert reactions(api) == ["confused"]


def test_a_closed_pull_request_is_said_to_be_closed(
    api: GitHubApi, runs: dict[int, dict[str, Any]], event: Event, spyre: Spyre
) -> None:
    asked = asks()
    asked["issue"]["state"] = "closed"
    event("issue_comment", asked)
    assert spyre("rerun") == 0
    assert replies(api) == [rerun.NOT_OPEN]
    assert all(one["run_attempt"] == 1 for one in runs.values())


def test_runs_that_github_does_not_start_again_are_said_and_others_are_started(
    api: GitHubApi, runs: dict[int, dict[str, Any]], event: Event, spyre: Spyre
) -> None:
    event("issue_comment", asks())
    old = "Unable to retry this workflow run because it was created over a month ago"
    api.fail("status", path="runs/11/rerun", status=403, message=old)
    assert spyre("rerun") == 0
    assert runs[12]["run_attempt"] == 2
    assert reactions(api) == ["rocket"]
    del runs[12]
    api.fail("status", path="runs/11/rerun", status=403, message=old)
    assert spyre("rerun") == 0
    assert replies(api) == [rerun_cli.TOO_OLD]


@pytest.mark.usefixtures("runs")
def test_a_right_that_the_token_lacks_is_an_error_and_no_answer_to_the_comment(
    api: GitHubApi, event: Event, spyre: Spyre, capsys: pytest.CaptureFixture[str]
) -> None:
    event("issue_comment", asks())
    api.fail("status", path="rerun", status=403, message="Resource not accessible by integration")
    assert spyre("rerun") == 2
    assert "not accessible" in capsys.readouterr().err
    assert replies(api) == []


@pytest.mark.parametrize(
    "body",
    [
        "please /spyre-ci rerun",
        "> /spyre-ci rerun",
        "/spyre-ci rerun all",
        "/spyre-ci rerunning",
        "",
        "    /spyre-ci rerun",
    ],
)
def test_a_comment_that_only_speaks_of_it_asks_for_nothing(
    api: GitHubApi, event: Event, spyre: Spyre, body: str
) -> None:
    event("issue_comment", asks(body))
    assert spyre("rerun") == 0
    assert api.seen == []


def test_issues_bots_and_changed_comments_ask_for_nothing(api: GitHubApi, event: Event, spyre: Spyre) -> None:
    issue, bot, edited = asks(), asks(), asks()
    del issue["issue"]["pull_request"]
    bot["comment"]["user"]["type"] = "Bot"
    edited["action"] = "edited"
    payloads: list[Any] = [issue, bot, edited, {}]
    for one in payloads:
        event("issue_comment", one)
        assert spyre("rerun") == 0
    assert api.seen == []


def test_a_pull_request_without_a_commit_is_told(
    api: GitHubApi, event: Event, spyre: Spyre, capsys: pytest.CaptureFixture[str]
) -> None:
    api.repositories["o/r"].pulls[7]["head"] = None
    event("issue_comment", asks())
    assert spyre("rerun") == 2
    assert "names no commit" in capsys.readouterr().err


def test_another_event_or_a_broken_one_is_refused(
    event: Event, spyre: Spyre, capsys: pytest.CaptureFixture[str]
) -> None:
    event("push", {})
    assert spyre("rerun") == 2
    assert "the event is 'push', not issue_comment" in capsys.readouterr().err
    event("issue_comment", [])
    assert spyre("rerun") == 2
    assert "no JSON object" in capsys.readouterr().err
