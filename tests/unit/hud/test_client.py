from __future__ import annotations

import pytest

from ci.core.errors import SettingsError
from ci.core.http import is_private, leads_here
from ci.hud.answers import Outcome
from ci.hud.client import Target, UnansweredError, callback_url, post


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("https://hud.example", "https://hud.example/github/callback"),
        ("https://hud.example/", "https://hud.example/github/callback"),
        ("https://hud.example:8443/relay/cb", "https://hud.example:8443/relay/cb"),
        ("https://hud.example/github/callback/", "https://hud.example/github/callback"),
        ("https://hud.example?x=1#top", "https://hud.example/github/callback?x=1"),
        ("http://[::1]:80", "http://[::1]:80/github/callback"),
    ],
)
def test_an_endpoint_gets_the_relays_path_and_no_trailing_slash(endpoint: str, url: str) -> None:
    assert callback_url(endpoint) == url


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        *(
            (one, "is not an http")
            for one in ("hud.example", "ftp://x", "https://", "http://[", "https://x:99999")
        ),
        ("", "is not an http"),
        ("https://me:hunter2@hud.example", "contains a user name or password"),
    ],
)
def test_an_endpoint_that_cannot_be_used_is_refused_and_no_password_repeated(
    endpoint: str, said: str
) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        callback_url(endpoint)
    assert (caught.value.where, bool(caught.value.remedy)) == ("report.endpoint", True)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:1/x", True),
        ("http://127.9.9.9", True),
        ("http://[::1]/", True),
        ("http://localhost", True),
        ("http://localhost.example", False),
        ("http://10.0.0.1", False),
    ],
)
def test_this_machine_is_told_from_others(url: str, loopback: bool) -> None:
    assert leads_here(url) is loopback
    assert is_private(url) is loopback


def test_a_token_that_cannot_be_had_is_an_answer() -> None:
    def none() -> str:
        raise SettingsError("there is no token", remedy="set one")

    with pytest.raises(UnansweredError) as caught:
        post({}, Target(url="https://hud.invalid/", repository="o/r", token=none))
    answer = caught.value.answer
    assert (answer.outcome, answer.detail, answer.remedy) == (
        Outcome.UNAUTHORIZED, "there is no token", "set one",
    )  # fmt: skip


def test_a_target_does_not_show_its_token() -> None:
    target = Target(url="https://x/", repository="o/r", token=lambda: "s3cret")
    assert "token" not in repr(target)
