from __future__ import annotations

import pytest

from ci.core.errors import SettingsError
from ci.core.http import leads_here
from ci.hud.answers import Outcome
from ci.hud.client import Target, callback_url, post, sends_token_in_clear


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
    "endpoint", ["hud.example", "ftp://x", "https://", "http://[", "https://x:99999", ""]
)
def test_an_endpoint_that_is_no_url_is_refused(endpoint: str) -> None:
    with pytest.raises(SettingsError, match="is no http") as caught:
        callback_url(endpoint)
    assert caught.value.where == "report.endpoint"
    assert caught.value.remedy is not None


def test_an_endpoint_with_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(SettingsError, match="holds a user name or password") as caught:
        callback_url("https://me:hunter2@hud.example")
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
    assert sends_token_in_clear(url) is not loopback


def test_https_never_sends_the_token_in_clear() -> None:
    assert not sends_token_in_clear("https://hud.example")


def test_a_token_that_cannot_be_had_is_an_answer() -> None:
    def none() -> str:
        raise SettingsError("there is no token", remedy="set one")

    answer = post({}, Target(url="https://hud.invalid/", repository="o/r", token=none))
    assert answer.outcome is Outcome.UNAUTHORIZED
    assert (answer.detail, answer.remedy) == ("there is no token", "set one")


def test_a_target_does_not_show_its_token() -> None:
    target = Target(url="https://x/", repository="o/r", token=lambda: "s3cret")
    assert "token" not in repr(target)


def test_what_is_no_json_is_not_sent() -> None:
    answer = post(
        {"x": float("nan")}, Target(url="https://hud.invalid/", repository="o/r", token=lambda: "s3cret")
    )
    assert answer.outcome is Outcome.REFUSED
    assert answer.detail.startswith("cannot be sent: ")
