"""A registry's tags, page by page, and what it may say instead."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from docker import auth

from ci.core.errors import CommandError, MissingInputError
from ci.image.manifests import RegistryAwayError
from ci.image.registry import tags_of

HOST = "registry.example.com"
IMAGE = f"{HOST}/spyre/runtime"
FIRST = f"https://{HOST}/v2/spyre/runtime/tags/list?n=1000"
Asked = list[tuple[str, str]]


def registry(monkeypatch: pytest.MonkeyPatch, *answers: tuple[int, Any, dict[str, str]]) -> Asked:
    """Gives these answers, one after the other and the last for ever; what it was asked."""
    asked: Asked = []
    left = list(answers)

    def get(url: str, *, headers: dict[str, str], **_: object) -> requests.Response:
        asked.append((url, headers.get("Authorization", "")))
        status, body, more = left.pop(0) if len(left) > 1 else left[0]
        answer = requests.Response()
        answer.status_code, answer.url = status, url
        answer._content = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer.headers.update(more)
        return answer

    monkeypatch.setattr(requests, "get", get)
    known = SimpleNamespace(resolve_authconfig=lambda _: {"username": "robot", "password": "word"})
    monkeypatch.setattr(auth, "load_config", lambda: known)
    return asked


def test_tags_come_in_order_and_what_stands_beside_images_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = f"sha256-{'a' * 64}"
    tags = ["v2", "1.0", beside, f"{beside}.sig", "bad/tag", "-x", "1.0"]
    asked = registry(monkeypatch, (200, {"tags": tags}, {}))
    assert tags_of(IMAGE) == ["1.0", "v2"]
    assert asked == [(FIRST, "")]


def test_every_page_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    following = {"Link": '</v2/spyre/runtime/tags/list?last=a&n=1>; rel="next"'}
    asked = registry(monkeypatch, (200, {"tags": ["a"]}, following), (200, {"tags": ["b"]}, {}))
    assert tags_of(IMAGE) == ["a", "b"]
    assert asked[1][0] == f"https://{HOST}/v2/spyre/runtime/tags/list?last=a&n=1"


def test_a_repository_whose_tags_were_all_deleted_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    registry(monkeypatch, (200, {"tags": None}, {}))
    assert tags_of(IMAGE) == []


def test_credentials_are_given_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = registry(
        monkeypatch, (401, {}, {"WWW-Authenticate": 'Basic realm="x"'}), (200, {"tags": ["a"]}, {})
    )
    assert tags_of(IMAGE) == ["a"]
    assert [how for _, how in asked] == ["", "Basic cm9ib3Q6d29yZA=="]


def test_credentials_follow_no_link_to_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    following = {"Link": '<https://evil.example.com/v2/>; rel="next"'}
    asked = registry(monkeypatch, (200, {"tags": ["a"]}, following))
    with pytest.raises(RegistryAwayError, match=r"the next tags of .* are elsewhere"):
        tags_of(IMAGE)
    assert len(asked) == 1


def test_pages_without_end_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    following = {"Link": '</v2/spyre/runtime/tags/list?last=a>; rel="next"'}
    asked = registry(monkeypatch, (200, {"tags": ["a"]}, following))
    with pytest.raises(RegistryAwayError, match="more than 100 pages"):
        tags_of(IMAGE)
    assert len(asked) == 100


def test_a_repository_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    registry(monkeypatch, (404, {}, {}))
    with pytest.raises(MissingInputError, match=f"there is no image {IMAGE}"):
        tags_of(IMAGE)


def test_credentials_that_are_refused_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    registry(monkeypatch, (403, {}, {}))
    with pytest.raises(CommandError, match="the registry refuses the credentials") as caught:
        tags_of(IMAGE)
    assert caught.value.remedy == f"log in: docker login {HOST}"


@pytest.mark.parametrize(
    ("status", "body"), [(500, {}), (302, {}), (200, b"<html>"), (200, []), (200, {"tags": "a"}), (200, {})]
)
def test_what_is_no_answer_is_said(monkeypatch: pytest.MonkeyPatch, status: int, body: Any) -> None:
    registry(monkeypatch, (status, body, {}))
    with pytest.raises(RegistryAwayError, match=f"answers {status} and no tags") as caught:
        tags_of(IMAGE)
    assert caught.value.exit_code == 3


def test_a_registry_that_is_away_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    registry(monkeypatch, (200, {}, {}))

    def away(*_: object, **__: object) -> None:
        raise requests.ConnectionError("https://robot:word@secret")

    monkeypatch.setattr(requests, "get", away)
    with pytest.raises(RegistryAwayError) as caught:
        tags_of(IMAGE)
    assert caught.value.what == f"the registry {HOST} cannot be asked for {IMAGE}: ConnectionError"
