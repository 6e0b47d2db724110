"""Minting a token at a stand-in for GitHub, over real sockets."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ci.config import Settings
from ci.core.errors import SettingsError
from ci.hud.client import TokenUnavailableError
from ci.hud.oidc import mint

ASKING = "asking-token"
MINTED = "minted.jwt.token"


def gives(token: Any) -> Any:
    return (200, {}, json.dumps({"value": token}))


def environ(url: str) -> dict[str, str]:
    return {
        "ACTIONS_ID_TOKEN_REQUEST_URL": f"{url}/token?api-version=2.0",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": ASKING,
    }


def minted(url: str, *, timeout_s: float = 10) -> str:
    return mint(environ(url), audience="a b", repository="o/r", timeout_s=timeout_s)


def test_a_token_is_minted_for_the_audience(github: Any) -> None:
    github.script = [gives(MINTED)]
    assert minted(github.url) == MINTED
    (request,) = github.requests
    assert request["headers"]["Authorization"] == f"Bearer {ASKING}"
    assert parse_qs(urlsplit(request["path"]).query) == {"api-version": ["2.0"], "audience": ["a b"]}


@pytest.mark.parametrize("step", [500, 429, "cut", "hang"])
def test_a_github_that_is_away_is_asked_once_and_said_to_be_so(github: Any, step: Any) -> None:
    github.script = [step]
    with pytest.raises(TokenUnavailableError, match=r"GitHub gave no OIDC token: "):
        minted(github.url, timeout_s=0.3)
    assert len(github.requests) == 1


def test_nobody_there_is_said() -> None:
    with pytest.raises(TokenUnavailableError, match="GitHub gave no OIDC token: no answer"):
        minted("http://127.0.0.1:1")


@pytest.mark.parametrize("step", [400, 401, 403, 404, (302, {"Location": "http://127.0.0.1:1/"}, "")])
def test_a_refusal_is_not_asked_again(github: Any, step: Any) -> None:
    github.script = [step]
    with pytest.raises(SettingsError, match="GitHub gave no OIDC token: HTTP") as caught:
        minted(github.url)
    assert "id-token: write" in str(caught.value.remedy)
    assert len(github.requests) == 1


@pytest.mark.parametrize("body", ["<html>", "{}", "[]", '{"value": 7}', "null", "[" * 50_000])
def test_an_answer_without_a_token_is_said_and_not_shown(github: Any, body: str) -> None:
    github.script = [(200, {}, body)]
    with pytest.raises(
        TokenUnavailableError, match="GitHub gave no OIDC token: an answer without one"
    ) as caught:
        minted(github.url)
    assert body not in str(caught.value)


@pytest.mark.parametrize("token", ["two words", "line\nbreak", ""])
def test_a_token_no_header_can_carry_is_refused_and_not_shown(github: Any, token: str) -> None:
    github.script = [gives(token)]
    with pytest.raises(SettingsError, match="is empty or holds blanks") as caught:
        minted(github.url)
    assert not token or token not in str(caught.value)


def test_every_post_has_a_token_of_its_own(
    world: Any, run_dir: Any, settings: Callable[..., Settings], faulty: Any, github: Any
) -> None:
    github.script = [gives("first"), gives("second")]
    faulty.script = [503, "ok"]
    here = settings(report__endpoint=faulty.url, report__audience="our-hud")
    assert world.deliver(run_dir, here, environ(github.url)).outcome == "delivered"
    sent = [request["headers"]["Authorization"] for request in faulty.requests]
    assert sent == ["Bearer first", "Bearer second"]
    assert all("audience=our-hud" in request["path"] for request in github.requests)


def test_a_minted_token_that_is_refused_is_minted_anew_once(
    world: Any, run_dir: Any, settings: Callable[..., Settings], faulty: Any, github: Any
) -> None:
    github.script = [gives("stale"), gives("fresh"), gives("third")]
    faulty.script = [401, "ok"]
    here = settings(report__endpoint=faulty.url)
    assert world.deliver(run_dir, here, environ(github.url)).outcome == "delivered"
    assert len(faulty.requests) == 2


def test_a_minted_token_that_is_refused_twice_is_given_up(
    world: Any, run_dir: Any, settings: Callable[..., Settings], faulty: Any, github: Any
) -> None:
    github.script = [gives("stale"), gives("fresh"), gives("third")]
    faulty.script = [401, (401, {}, "who is fresh?"), "ok"]
    delivery = world.deliver(run_dir, settings(report__endpoint=faulty.url), environ(github.url))
    assert (delivery.outcome, len(faulty.requests)) == ("left", 2)
    assert delivery.reason == "HTTP 401: who is ***?"
    texts = "".join(path.read_text() for path in run_dir.rglob("*.json")) + "".join(world.lines)
    assert not any(secret in texts for secret in ("stale", "fresh", ASKING))


def test_a_token_from_the_environment_wins_over_github(
    world: Any, run_dir: Any, settings: Callable[..., Settings], faulty: Any, github: Any
) -> None:
    there = settings(report__endpoint=faulty.url)
    world.deliver(run_dir, there, {**environ(github.url), "SPYRE_CI_HUD_TOKEN": "given"})
    assert faulty.requests[0]["headers"]["Authorization"] == "Bearer given"
    assert github.requests == []


def test_github_being_away_keeps_the_report_to_be_sent_again(
    world: Any, run_dir: Any, settings: Callable[..., Settings], faulty: Any, github: Any
) -> None:
    github.script = [503] * 100
    here = settings(report__endpoint=faulty.url)
    delivery = world.deliver(run_dir, here, environ(github.url))
    assert (delivery.outcome, delivery.report.left[0].outcome) == ("left", "retry")
    assert faulty.requests == []
    github.script = [gives(MINTED)]
    assert world.flush(run_dir, here, environ(github.url)).outcome == "delivered"


def test_a_minted_token_is_not_sent_in_clear(
    world: Any, run_dir: Any, settings: Callable[..., Settings], github: Any
) -> None:
    here = settings(report__endpoint="http://hud.example")
    delivery = world.deliver(run_dir, here, environ(github.url))
    assert "is plain http, and a token minted for it could be read on the way" in delivery.reason
    assert github.requests == []


@pytest.mark.parametrize(
    ("vouched", "outcome"), [("torch-spyre/torch-spyre", "delivered"), ("Torch-Spyre/torch-spyre", "left")]
)
def test_a_minted_token_has_to_vouch_for_the_repository_that_is_reported_for(
    world: Any,
    run_dir: Any,
    settings: Callable[..., Settings],
    faulty: Any,
    github: Any,
    *,
    vouched: str,
    outcome: str,
) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"repository": vouched}).encode()).decode().rstrip("=")
    github.script = [gives(f"e30.{claims}.sig")]
    delivery = world.deliver(run_dir, settings(report__endpoint=faulty.url), environ(github.url))
    assert (delivery.outcome, len(faulty.requests)) == (outcome, int(outcome == "delivered"))
    if outcome == "left":
        assert delivery.reason == (
            f"report.repository: is 'torch-spyre/torch-spyre', but the job's token vouches for {vouched!r}"
        )
        assert delivery.remedy.startswith("set it to the repository that runs the workflow, in its exact")
