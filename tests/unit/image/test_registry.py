"""What a registry is asked without an engine: a digest, and tags page by page."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from docker import auth

from ci.core.errors import CommandError, MissingInputError
from ci.image.registry import RefusedError, RegistryAwayError, digest_in_registry, split_image, tags_of

DIGEST = "sha256:" + "a" * 64
HOST = "registry.example.com"
IMAGE = f"{HOST}/spyre/runtime"
REALM = 'Bearer realm="{}",service="s"'
FIRST = f"https://{HOST}/v2/spyre/runtime/tags/list?n=1000"
Asked = list[tuple[str, str]]


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A login of this machine."""
    login = SimpleNamespace(resolve_authconfig=lambda _: {"username": "robot", "password": "word"})
    monkeypatch.setattr(auth, "load_config", lambda: login)


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("debian", ("docker.io", "library/debian", "latest")),
        ("me/x:1", ("docker.io", "me/x", "1")),
        ("localhost/x", ("localhost", "x", "latest")),
        ("127.0.0.1:5000/a/b:c", ("127.0.0.1:5000", "a/b", "c")),
        ("quay.io/a/b", ("quay.io", "a/b", "latest")),
    ],
)
def test_a_name_is_registry_repository_and_tag(image: str, parts: tuple[str, str, str]) -> None:
    assert split_image(image) == parts


class Registry:
    """Answers as a registry does, and notes what it was asked with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: dict[str, Any], token: int = 200) -> None:
        self.answers, self.asked, self.tokens = list(answers), list[tuple[str, str]](), list[Any]()
        self.token = token
        monkeypatch.setattr(requests, "head", self.head)
        monkeypatch.setattr(requests, "get", self.get)

    def head(self, url: str, *, headers: dict[str, str], **_: object) -> requests.Response:
        self.asked.append((url, headers.get("Authorization", "")))
        said = self.answers.pop(0)
        answer = requests.Response()
        answer.status_code = said["status"]
        answer.headers.update(said.get("headers", {}))
        return answer

    def get(self, url: str, **said: Any) -> requests.Response:
        self.tokens.append((url, said["params"], said["auth"]))
        answer = requests.Response()
        answer.status_code = self.token
        answer._content = b'{"token": "t0"}'
        return answer


FOUND = {"status": 200, "headers": {"Docker-Content-Digest": DIGEST}}


def wanted(how: str) -> dict[str, Any]:
    return {"status": 401, "headers": {"WWW-Authenticate": how}}


def test_a_digest_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(monkeypatch, FOUND)
    assert digest_in_registry(IMAGE) == DIGEST
    assert registry.asked == [(f"https://{HOST}/v2/spyre/runtime/manifests/latest", "")]


def test_one_that_is_not_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    Registry(monkeypatch, {"status": 404})
    assert digest_in_registry(IMAGE) is None


def test_a_user_and_a_word_are_given_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(monkeypatch, wanted('Basic realm="x"'), FOUND)
    assert digest_in_registry(IMAGE) == DIGEST
    assert [how for _, how in registry.asked] == ["", "Basic cm9ib3Q6d29yZA=="]


def test_a_token_is_fetched_where_the_registry_says(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(monkeypatch, wanted(REALM.format("https://auth.example.com/token")), FOUND)
    assert digest_in_registry(IMAGE) == DIGEST
    scope = {"service": "s", "scope": "repository:spyre/runtime:pull"}
    assert registry.tokens == [("https://auth.example.com/token", scope, ("robot", "word"))]
    assert registry.asked[1][1] == "Bearer t0"


def test_credentials_go_over_no_open_line(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(monkeypatch, wanted(REALM.format("http://auth.example.com/token")), wanted(""))
    with pytest.raises(RefusedError):
        digest_in_registry(IMAGE)
    assert registry.tokens == []


def test_credentials_that_are_refused_are_told_from_an_image_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Registry(monkeypatch, wanted(REALM.format("https://a.example.com/t")), {"status": 403}, token=401)
    with pytest.raises(RefusedError):
        digest_in_registry(IMAGE)


@pytest.mark.parametrize("answer", [{"status": 500}, {"status": 200}, {"status": 302}])
def test_an_answer_without_a_digest_is_said(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]) -> None:
    Registry(monkeypatch, answer)
    with pytest.raises(CommandError, match=f"answers {answer['status']} and no digest"):
        digest_in_registry(IMAGE)


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
def test_an_answer_without_tags_is_said(monkeypatch: pytest.MonkeyPatch, status: int, body: Any) -> None:
    registry(monkeypatch, (status, body, {}))
    with pytest.raises(RegistryAwayError, match=f"answers {status} and no tags") as caught:
        tags_of(IMAGE)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(("method", "ask"), [("head", digest_in_registry), ("get", tags_of)])
def test_a_registry_that_is_away_is_said(
    monkeypatch: pytest.MonkeyPatch, method: str, ask: Callable[[str], object]
) -> None:
    def away(*_: object, **__: object) -> None:
        raise requests.ConnectionError("https://robot:word@secret")

    monkeypatch.setattr(requests, method, away)
    with pytest.raises(RegistryAwayError) as caught:
        ask(IMAGE)
    assert caught.value.what == f"the registry {HOST} cannot be asked for {IMAGE}: ConnectionError"
