"""Minting a token at a stand-in for GitHub, over real sockets."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ci.core.errors import SettingsError
from ci.hud.client import TokenUnavailableError
from ci.hud.oidc import mint, offered

from .desk import Desk

ASKING = "asking-token"


def environ(url: str, asking: str = ASKING) -> dict[str, str]:
    return {"ACTIONS_ID_TOKEN_REQUEST_URL": url, "ACTIONS_ID_TOKEN_REQUEST_TOKEN": asking}


def minted(url: str, *, timeout_s: float = 10) -> str:
    given = environ(f"{url}/token?api-version=2.0")
    return mint(given, audience="a b", repository="o/r", timeout_s=timeout_s)


def gives(token: Any) -> Any:
    return (200, {}, json.dumps({"value": token}))


def test_a_token_is_minted_for_the_audience(github: Any) -> None:
    github.script = [gives("minted.jwt.token")]
    assert minted(github.url) == "minted.jwt.token"
    (request,) = github.requests
    assert request["headers"]["Authorization"] == f"Bearer {ASKING}"
    assert parse_qs(urlsplit(request["path"]).query) == {"api-version": ["2.0"], "audience": ["a b"]}


AWAY, REFUSED = "wait until GitHub answers again", "id-token: write"


@pytest.mark.parametrize(
    ("step", "said", "remedy"),
    [
        *((step, "", AWAY) for step in (500, 429, "cut", "hang")),
        *((status, f"HTTP {status}", REFUSED) for status in (400, 401, 403, 404)),
        ((302, {"Location": "http://127.0.0.1:1/"}, ""), "HTTP 302", REFUSED),
        *(
            ((200, {}, body), "a response without one", AWAY)
            for body in ("<html>", "{}", "[]", '{"value": 7}', "null", "[" * 50_000)
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_github_that_gives_no_token_is_asked_once_and_its_answer_not_shown(
    github: Any, step: Any, said: str, remedy: str
) -> None:
    github.script = [step]
    with pytest.raises(
        TokenUnavailableError if remedy == AWAY else SettingsError,
        match=f"GitHub returned no OIDC token: {said}",
    ) as caught:
        minted(github.url, timeout_s=0.3)
    assert len(github.requests) == 1
    assert remedy in str(caught.value.remedy)
    body = step[2] if isinstance(step, tuple) else ""
    assert not body or body not in str(caught.value)


@pytest.mark.parametrize("token", ["two words", "line\nbreak", ""])
def test_a_token_no_header_can_carry_is_refused_and_not_shown(github: Any, token: str) -> None:
    github.script = [gives(token)]
    with pytest.raises(SettingsError, match="is empty, or contains blanks") as caught:
        minted(github.url)
    assert not token or token not in str(caught.value)


def test_nobody_there_is_said() -> None:
    with pytest.raises(TokenUnavailableError, match="GitHub returned no OIDC token: no response"):
        minted("http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "may not request an OIDC token from GitHub"),
        (environ("", "asking"), "may not request an OIDC token from GitHub"),
        (environ("https://token.example/x", ""), "may not request an OIDC token from GitHub"),
        *(
            (environ(url, "asking"), "is not an https URL")
            for url in ("http://token.example/x", "ftp://x", "https://", "http://[", "file:///x")
        ),
        (environ("https://token.example/x", "hunter 2"), "is empty, or contains blanks"),
    ],
)
def test_what_a_job_lacks_to_ask_for_a_token_is_said_and_no_token_shown(
    given: dict[str, str], said: str
) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        mint(given, audience="a", repository="o/r")
    assert "hunter" not in str(caught.value)
    if "may not ask" in said:
        assert not offered(given)
        assert caught.value.remedy == "give the job `permissions: id-token: write`"


def test_every_post_has_a_token_of_its_own(desk: Desk, github: Any) -> None:
    desk.mint(github, "first", "second")
    desk.answers(503, "ok")
    desk.flags["report.audience"] = "our-hud"
    assert desk.deliver().outcome == "delivered"
    assert desk.tokens == ["Bearer first", "Bearer second"]
    assert all("audience=our-hud" in request["path"] for request in github.requests)


@pytest.mark.parametrize(("answer", "outcome"), [("ok", "delivered"), ((401, {}, "who is fresh?"), "left")])
def test_a_minted_token_that_is_refused_is_minted_anew_once(
    desk: Desk, github: Any, answer: Any, outcome: str
) -> None:
    desk.mint(github, "stale", "fresh", "third")
    desk.answers(401, answer)
    delivery = desk.deliver()
    assert (delivery.outcome, desk.tokens) == (outcome, ["Bearer stale", "Bearer fresh"])
    assert delivery.reason == ("" if answer == "ok" else "HTTP 401: who is ***?")
    assert not desk.shows(["stale", "fresh", ASKING])


def test_a_token_from_the_environment_wins_over_github(desk: Desk, github: Any) -> None:
    desk.mint(github)
    desk.environ["SPYRE_CI_HUD_TOKEN"] = "given"
    desk.deliver()
    assert (desk.tokens, github.requests) == (["Bearer given"], [])


def test_github_being_away_keeps_the_report_to_be_sent_again(desk: Desk, github: Any) -> None:
    desk.mint(github)
    github.script = [503] * 100
    delivery = desk.deliver()
    assert (delivery.outcome, delivery.report.left[0].outcome, desk.paths) == ("left", "retry", [])
    github.script = [gives("minted")]
    assert desk.send().outcome == "delivered"


def test_a_minted_token_is_not_sent_in_clear(desk: Desk, github: Any) -> None:
    desk.mint(github)
    desk.flags["report.endpoint"] = "http://hud.example"
    assert "is plain http, and anyone on the network path could read the token" in desk.deliver().reason
    assert github.requests == []


@pytest.mark.parametrize("vouched", ["torch-spyre/torch-spyre", "Torch-Spyre/torch-spyre"])
def test_a_minted_token_has_to_vouch_for_the_repository_that_is_reported_for(
    desk: Desk, github: Any, vouched: str
) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"repository": vouched}).encode()).decode().rstrip("=")
    desk.mint(github, f"e30.{claims}.sig")
    delivery = desk.deliver()
    if vouched == "torch-spyre/torch-spyre":
        assert (delivery.outcome, len(desk.paths)) == ("delivered", 1)
        return
    assert (delivery.outcome, desk.paths) == ("left", [])
    assert delivery.reason == (
        f"report.repository: is 'torch-spyre/torch-spyre', but the job's OIDC token is for {vouched!r}"
    )
    assert delivery.remedy.startswith("set it to the repository that runs the workflow, in its exact")
