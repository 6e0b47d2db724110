"""Asking for what changed, and how long a limit lasts."""

from __future__ import annotations

import time

import pytest

from ci.core.github.client import Client, Effects, in_repository
from ci.core.github.errors import GitHubAwayError, GitHubMissingError
from tests.github_api import GitHubApi, pull

PULLS = in_repository("o/r", "pulls")


def client(api: GitHubApi) -> Client:
    return Client(api=api.url, token=api.token, effects=Effects(sleep=lambda _: None), patience_s=5)


def test_what_did_not_change_is_not_sent_again(api: GitHubApi) -> None:
    asked = client(api)
    first = asked.changed(PULLS, {"state": "open"}, etag="")
    assert (first.status, first.text) == (200, "[]")
    assert "if-none-match" not in api.seen[0].headers
    etag = first.headers["etag"]
    assert asked.changed(PULLS, {"state": "open"}, etag=etag).status == 304
    api.repositories["o/r"].pulls[1] = pull(1)
    again = asked.changed(PULLS, {"state": "open"}, etag=etag)
    assert (again.status, again.headers["etag"] != etag) == (200, True)


def test_an_etag_makes_no_error_of_the_answer(api: GitHubApi) -> None:
    with pytest.raises(GitHubMissingError):
        client(api).changed(in_repository("o/none", "pulls"), None, etag='"x"')


def test_a_long_limit_says_when_it_is_over(api: GitHubApi) -> None:
    api.fail("primary", reset=int(time.time()) + 600, times=9)
    with pytest.raises(GitHubAwayError) as caught:
        client(api).get(PULLS)
    assert caught.value.retry_s is not None
    assert 590 < caught.value.retry_s < 602


def test_whoever_is_away_for_another_reason_says_nothing_of_that(api: GitHubApi) -> None:
    api.fail(status=500, times=9)
    with pytest.raises(GitHubAwayError) as caught:
        client(api).get(PULLS)
    assert caught.value.retry_s is None
