from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from ci.core.errors import EXIT_INCOMPLETE, EXIT_USAGE
from ci.core.github.answers import content_of, error_of, is_limited, limit_wait_s, said_by
from ci.core.github.errors import GitHubAwayError, GitHubDeniedError, GitHubMissingError, GitHubRefusedError
from ci.core.http import Answer

SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."


def reply(status: int, message: str = "", headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status=status, headers=headers or {}, text=json.dumps({"message": message}))


@pytest.mark.parametrize(
    ("status", "kind", "code", "remedy"),
    [
        (401, GitHubDeniedError, EXIT_USAGE, "a token that is valid"),
        (403, GitHubDeniedError, EXIT_USAGE, "the right to do this"),
        (404, GitHubMissingError, EXIT_USAGE, "check the name"),
        (410, GitHubMissingError, EXIT_USAGE, "check the name"),
        (422, GitHubRefusedError, EXIT_USAGE, "check the request"),
        (307, GitHubRefusedError, EXIT_USAGE, "its new name"),
        (500, GitHubAwayError, EXIT_INCOMPLETE, "when GitHub is up"),
        (503, GitHubAwayError, EXIT_INCOMPLETE, "when GitHub is up"),
    ],
)
def test_every_refusal_has_its_error_code_and_remedy(
    status: int, kind: type[Exception], code: int, remedy: str
) -> None:
    error = error_of(reply(status, "No, sorry"), what="GET /repos/o/r", now_s=0)
    assert type(error) is kind
    assert error.exit_code == code
    assert remedy in (error.remedy or "")
    assert error.what == f"GitHub answers GET /repos/o/r with {status}: No, sorry"


def test_a_refusal_names_each_thing_that_was_wrong() -> None:
    text = json.dumps(
        {
            "message": "Validation Failed",
            "errors": [{"field": "body", "code": "missing_field"}, {"message": "Hook already exists"}, "odd"],
        }
    )
    told = said_by(Answer(status=422, headers={}, text=text))
    assert told == "Validation Failed: body missing_field: Hook already exists: odd"


def test_what_a_server_says_neither_steers_a_terminal_nor_shows_a_secret() -> None:
    told = said_by(
        Answer(status=500, headers={}, text="\x1b[31m<html>https://u:pw@h/?t=1\u202e" + "x" * 9000)
    )
    assert "\x1b" not in told
    assert "pw" not in told
    assert "\u202e" not in told
    assert len(told) <= 300


@pytest.mark.parametrize(
    ("status", "message", "headers", "limited"),
    [
        (429, "", {}, True),
        (403, "API rate limit exceeded for user ID 1.", {}, True),
        (403, SECONDARY, {}, True),
        (403, "", {"retry-after": "3"}, True),
        (403, "", {"x-ratelimit-remaining": "0"}, True),
        (403, "Resource not accessible by integration", {"x-ratelimit-remaining": "4990"}, False),
        (404, "Not Found", {}, False),
    ],
)
def test_a_limit_is_told_from_a_missing_right(
    status: int, message: str, headers: Mapping[str, str], limited: bool
) -> None:
    assert is_limited(reply(status, message, headers)) is limited


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"retry-after": "7"}, 7),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1030"}, 31),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "900"}, 1),
        # A reset that belongs to a limit which is not the one that was hit.
        ({"x-ratelimit-remaining": "4990", "x-ratelimit-reset": "4600"}, 60),
        ({"retry-after": "soon"}, 60),
        ({}, 60),
    ],
)
def test_the_wait_is_the_one_that_github_tells(headers: Mapping[str, str], wait_s: float) -> None:
    assert limit_wait_s(reply(403, SECONDARY, headers), now_s=1000) == wait_s


def test_an_empty_answer_holds_nothing_and_one_that_is_no_json_says_so() -> None:
    assert content_of(Answer(status=204, headers={}, text=""), what="DELETE /x") is None
    with pytest.raises(GitHubAwayError, match="no JSON: '<html>'") as caught:
        content_of(Answer(status=200, headers={}, text="<html>"), what="GET /x")
    assert "/api/v3" in (caught.value.remedy or "")
