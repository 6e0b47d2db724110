"""What an image's name says, for a registry that is asked without an engine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import requests
from docker import auth

from ci.core.errors import CommandError
from ci.image.manifests import RefusedError, digest_in_registry, split_image

DIGEST = "sha256:" + "a" * 64
HOST = "registry.example.com"
IMAGE = f"{HOST}/spyre/runtime:latest"
REALM = 'Bearer realm="{}",service="s"'


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
        known = SimpleNamespace(resolve_authconfig=lambda _: {"username": "robot", "password": "word"})
        monkeypatch.setattr(auth, "load_config", lambda: known)

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
def test_what_is_no_answer_is_said(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]) -> None:
    Registry(monkeypatch, answer)
    with pytest.raises(CommandError, match=f"answers {answer['status']} and no digest"):
        digest_in_registry(IMAGE)


def test_a_registry_that_is_away_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    Registry(monkeypatch)

    def away(*_: object, **__: object) -> None:
        raise requests.ConnectionError("https://robot:word@secret")

    monkeypatch.setattr(requests, "head", away)
    with pytest.raises(CommandError) as caught:
        digest_in_registry(IMAGE)
    assert caught.value.what == f"the registry {HOST} cannot be asked for {IMAGE}: ConnectionError"
