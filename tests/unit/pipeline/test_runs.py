from __future__ import annotations

from typing import Any

import pytest

from ci.pipeline.rerun import (
    ASSOCIATIONS,
    NOT_OPEN,
    NOT_YOURS,
    NOTHING,
    STILL,
    Asked,
    Head,
    asked_by,
    decide,
    of_head,
)
from ci.pipeline.runs import Artifact, run_of

ROW: dict[str, Any] = {
    "id": 50,
    "run_attempt": 2,
    "name": "pull request",
    "path": ".github/workflows/a.yml@refs/heads/main",
    "event": "pull_request",
    "status": "completed",
    "conclusion": None,
    "head_sha": "a" * 40,
    "head_branch": "feature",
    "head_repository": None,
}
ASKED = Asked(
    comment=1, pull_request=7, login="helper", association="CONTRIBUTOR", author="author", is_open=True
)


def test_a_run_is_read_with_what_may_be_missing() -> None:
    run = run_of(ROW)
    assert run is not None
    assert (run.path, run.conclusion, run.repository, run.attempt) == (".github/workflows/a.yml", "", "", 2)


@pytest.mark.parametrize(
    "row", [None, {}, ROW | {"id": "50"}, ROW | {"head_sha": "main"}, ROW | {"head_sha": None}]
)
def test_what_is_no_run_is_none(row: Any) -> None:
    assert run_of(row) is None


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("results", "results"),
        ("device.12", "device"),
        ("results-x.1", "results-x"),
        ("results-2", "results-2"),
    ],
)
def test_the_attempt_behind_an_artifact_s_name_is_not_its_name(name: str, group: str) -> None:
    assert Artifact(id=1, name=name, size=0).group == group


@pytest.mark.parametrize(
    ("association", "login", "may"),
    [
        *[(one, "helper", True) for one in sorted(ASSOCIATIONS)],
        ("NONE", "helper", False),
        ("FIRST_TIMER", "helper", False),
        ("", "", False),
        ("NONE", "author", True),
    ],
)
def test_contributors_and_the_author_may(association: str, login: str, may: bool) -> None:
    asked = Asked(
        comment=1, pull_request=7, login=login, association=association, author="author", is_open=True
    )
    assert asked.may is may
    assert decide(asked, []).reply == (NOTHING if may else NOT_YOURS)


def test_a_deleted_author_s_pull_request_gives_nobody_a_right() -> None:
    asked = Asked(comment=1, pull_request=7, login="", association="NONE", author="", is_open=True)
    assert not asked.may


def rows(*changed: dict[str, Any]) -> list[Any]:
    return [run_of(ROW | one) for one in changed]


def test_of_each_workflow_only_the_newest_run_counts() -> None:
    found = rows(
        {"id": 1, "conclusion": "failure"},
        {"id": 3, "conclusion": "success"},
        {"id": 2, "conclusion": "timed_out", "path": "b.yml"},
    )
    assert [run.id for run in decide(ASKED, found).runs] == [2]


def test_what_ended_well_or_goes_on_is_not_run_again() -> None:
    assert decide(ASKED, rows({"conclusion": "success"}, {"conclusion": "skipped"})).reply == NOTHING
    assert decide(ASKED, rows({"status": "queued"})).reply == STILL
    assert decide(ASKED, rows({"conclusion": "failure", "event": "issue_comment"})).reply == NOTHING
    closed = Asked(comment=1, pull_request=7, login="", association="OWNER", author="x", is_open=False)
    assert decide(closed, rows({"conclusion": "failure"})).reply == NOT_OPEN


def test_runs_of_a_push_are_nobodys_to_run_again() -> None:
    assert decide(ASKED, rows({"conclusion": "failure", "event": "push"})).reply == NOTHING


def test_a_run_that_was_skipped_takes_back_no_failure() -> None:
    found = rows({"id": 1, "conclusion": "failure"}, {"id": 2, "conclusion": "skipped"})
    assert [run.id for run in decide(ASKED, found).runs] == [1]


def test_only_runs_of_the_pull_requests_own_branch_are_its() -> None:
    row: dict[str, Any] = {"head_repository": {"full_name": "Someone/demo"}, "head_branch": "topic"}
    others: list[dict[str, Any]] = [
        {"head_branch": "main"},
        {"head_repository": {"full_name": "example/demo"}},
        {"head_sha": "b" * 40},
    ]
    found = rows(row, *(row | one for one in others))
    head = Head(sha=found[0].sha, branch="topic", repository="someone/Demo")
    assert of_head(found, head) == found[:1]


@pytest.mark.parametrize("reply", [NOT_YOURS, NOT_OPEN, NOTHING, STILL])
def test_answers_are_short_and_mention_nobody(reply: str) -> None:
    assert len(reply) < 250
    assert "@" not in reply


@pytest.mark.parametrize(
    "payload", [{}, {"action": "created"}, {"action": "created", "issue": {"pull_request": 1}}]
)
def test_a_payload_without_a_request_asks_for_nothing(payload: dict[str, Any]) -> None:
    assert asked_by(payload) is None
