"""What a registry is asked without an engine: how an image is named, its digest, and tags page by page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from docker import auth
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import CommandError, MissingInputError
from ci.core.registry import (
    ImageName,
    RegistryAwayError,
    by_digest,
    digest_of,
    find_digest,
    parse_image,
    tags_of,
)

DIGEST = "sha256:" + "a" * 64
HOST = "registry.example.com"
IMAGE = f"{HOST}/spyre/runtime"
FIRST = f"https://{HOST}/v2/spyre/runtime/tags/list?n=1000"
TOKENS = "https://auth.example.com/token"
WORD = st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True)
NAMES = st.builds(
    ImageName,
    repository=st.builds(
        lambda host, path: "/".join([*host, *path]),
        st.sampled_from([[], ["localhost"], ["h:5000"], ["127.0.0.1:5000"], ["quay.io"]]),
        st.lists(WORD, min_size=1, max_size=3),
    ),
    tag=st.one_of(st.just(""), st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,9}", fullmatch=True)),
    digest=st.sampled_from(["", DIGEST]),
)
# What is asked and answered: method, address and what authorizes it; status, body and headers.
Asked = list[tuple[str, str, str]]
Answer = tuple[int, Any, dict[str, str]]
FOUND: Answer = (200, {}, {"Docker-Content-Digest": DIGEST})


@given(NAMES)
def test_a_name_is_never_split_within_its_port_or_digest(name: ImageName) -> None:
    written = f"{name.repository}{name.tag and f':{name.tag}'}{name.digest and f'@{name.digest}'}"
    assert parse_image(written) == name
    assert by_digest(written, DIGEST) == f"{name.repository}@{DIGEST}"


@pytest.mark.parametrize(
    ("image", "registry", "path", "tag"),
    [
        ("debian", "docker.io", "library/debian", ""),
        ("docker.io/library/python:3.12", "docker.io", "library/python", "3.12"),
        ("me/x:1", "docker.io", "me/x", "1"),
        ("localhost/x", "localhost", "x", ""),
        ("127.0.0.1:5000/a/b:c", "127.0.0.1:5000", "a/b", "c"),
        (f"quay.io/a/b:t@{DIGEST}", "quay.io", "a/b", "t"),
    ],
)
def test_a_name_is_registry_repository_and_tag(image: str, registry: str, path: str, tag: str) -> None:
    name = parse_image(image)
    assert (name.registry, name.path, name.tag) == (registry, path, tag)


LOAD = auth.load_config


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A login of this machine."""
    login = SimpleNamespace(resolve_authconfig=lambda _: {"username": "robot", "password": "word"})
    monkeypatch.setattr(auth, "load_config", lambda _: login)


def answering(monkeypatch: pytest.MonkeyPatch, *answers: Answer, token: int = 200) -> Asked:
    """Gives these answers, one after the other and the last for ever; what it was asked."""
    asked: Asked = []
    left = list(answers)

    def answer_of(url: str, status: int, body: Any, headers: dict[str, str]) -> requests.Response:
        answer = requests.Response()
        answer.status_code, answer.url = status, url
        answer._content = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer.headers.update(headers)
        return answer

    def send(_: requests.Session, sent: requests.PreparedRequest, **__: object) -> requests.Response:
        method, url, shown = str(sent.method), str(sent.url), str(sent.headers.get("Authorization", ""))
        asked.append((method, url, shown))
        if url.startswith(TOKENS):
            return answer_of(url, token, {"token": "t0"}, {})
        return answer_of(url, *(left.pop(0) if len(left) > 1 else left[0]))

    monkeypatch.setattr(requests.Session, "send", send)
    return asked


def wanting(how: str) -> Answer:
    return 401, {}, {"WWW-Authenticate": how}


def test_a_digest_is_told_by_tag_or_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, FOUND)
    assert find_digest(IMAGE) == digest_of(f"{IMAGE}:1@{DIGEST}") == DIGEST
    address = f"https://{HOST}/v2/spyre/runtime/manifests"
    assert asked == [("HEAD", f"{address}/latest", ""), ("HEAD", f"{address}/{DIGEST}", "")]


def test_one_that_is_not_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, (404, {}, {}))
    assert find_digest(IMAGE) is None
    for ask in (digest_of, tags_of):
        with pytest.raises(MissingInputError, match=f"there is no image {IMAGE}"):
            ask(IMAGE)


def test_credentials_are_given_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, wanting('Basic realm="x"'), FOUND)
    assert find_digest(IMAGE) == DIGEST
    assert [how for _, _, how in asked] == ["", "Basic cm9ib3Q6d29yZA=="]
    asked = answering(monkeypatch, wanting(f'Bearer realm="{TOKENS}",service="s"'), FOUND)
    assert find_digest(IMAGE) == DIGEST
    scope = f"{TOKENS}?service=s&scope=repository%3Aspyre%2Fruntime%3Apull"
    assert asked[1:] == [("GET", scope, "Basic cm9ib3Q6d29yZA=="), ("HEAD", asked[0][1], "Bearer t0")]


@pytest.mark.parametrize("variable", ["REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "DOCKER_CONFIG"])
def test_a_login_of_podman_or_docker_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    paths = {"XDG_RUNTIME_DIR": "containers/auth.json", "DOCKER_CONFIG": "config.json"}
    for name in ("REGISTRY_AUTH_FILE", *paths):
        monkeypatch.setenv(name, str(tmp_path / "nothing"))
    if variable != "REGISTRY_AUTH_FILE":
        monkeypatch.delenv("REGISTRY_AUTH_FILE")
    monkeypatch.setenv(variable, str(tmp_path / ("" if variable in paths else "auth.json")))
    file = tmp_path / paths.get(variable, "auth.json")
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"auths": {HOST: {"auth": "cG9kOm1hbg=="}}}))
    monkeypatch.setattr(auth, "load_config", LOAD)
    asked = answering(monkeypatch, wanting('Basic realm="x"'), FOUND)
    assert find_digest(IMAGE) == DIGEST
    assert asked[-1][2] == "Basic cG9kOm1hbg=="


def test_netrc_is_shown_to_no_registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "netrc").write_text("default login somebody password else\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setattr(auth, "load_config", lambda _: SimpleNamespace(resolve_authconfig=lambda _: None))
    asked = answering(monkeypatch, wanting(f'Bearer realm="{TOKENS}"'), FOUND)
    assert find_digest(IMAGE) == DIGEST
    assert [shown for _, _, shown in asked] == ["", "", "Bearer t0"]


def test_a_registry_of_this_machine_is_asked_past_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://proxy.example.com:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    used = []

    def send(_: requests.Session, sent: requests.PreparedRequest, **given: Any) -> requests.Response:
        used.append(dict(given["proxies"]))
        raise requests.ConnectionError(sent.url)

    monkeypatch.setattr(requests.Session, "send", send)
    with pytest.raises(RegistryAwayError):
        find_digest("127.0.0.1:5000/spyre/runtime:1")
    assert used == [{}]


@pytest.mark.parametrize(
    ("answers", "token"),
    [
        ([wanting('Bearer realm="http://auth.example.com/token"')], 200),  # an open line gets no password
        ([wanting(f'Bearer realm="{TOKENS}"'), (403, {}, {})], 401),
    ],
)
@pytest.mark.parametrize("ask", [find_digest, tags_of])
def test_credentials_that_are_refused_are_said(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[str], object], answers: list[Answer], token: int
) -> None:
    asked = answering(monkeypatch, *answers, token=token)
    with pytest.raises(CommandError, match="the registry refuses the credentials") as caught:
        ask(IMAGE)
    assert caught.value.remedy == f"log in: docker login {HOST}"
    assert not any(url.startswith("http://") for _, url, _ in asked)


def test_tags_come_in_order_and_what_stands_beside_images_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = f"sha256-{'a' * 64}"
    tags = ["v2", "1.0", beside, f"{beside}.sig", "bad/tag", "-x", "1.0"]
    asked = answering(monkeypatch, (200, {"tags": tags}, {}))
    assert tags_of(IMAGE) == ["1.0", "v2"]
    assert asked == [("GET", FIRST, "")]
    answering(monkeypatch, (200, {"tags": None}, {}))
    assert tags_of(IMAGE) == []


def test_every_page_is_asked_for_and_none_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    following = {"Link": '</v2/spyre/runtime/tags/list?last=a&n=1>; rel="next"'}
    asked = answering(monkeypatch, (200, {"tags": ["a"]}, following), (200, {"tags": ["b"]}, {}))
    assert tags_of(IMAGE) == ["a", "b"]
    assert asked[1][1] == f"https://{HOST}/v2/spyre/runtime/tags/list?last=a&n=1"
    asked = answering(monkeypatch, (200, {"tags": ["a"]}, following))
    with pytest.raises(RegistryAwayError, match="more than 100 pages"):
        tags_of(IMAGE)
    assert len(asked) == 100
    asked = answering(
        monkeypatch, (200, {"tags": ["a"]}, {"Link": '<https://evil.example.com/v2/>; rel="next"'})
    )
    with pytest.raises(RegistryAwayError, match=r"the next tags of .* are elsewhere"):
        tags_of(IMAGE)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("status", "body"), [(500, {}), (302, {}), (200, b"<html>"), (200, []), (200, {"tags": "a"}), (200, {})]
)
def test_an_answer_that_tells_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, status: int, body: Any
) -> None:
    answering(monkeypatch, (status, body, {}))
    for ask in (find_digest, tags_of):
        with pytest.raises(RegistryAwayError, match=f"answers {status} and no (digest|tags)") as caught:
            ask(IMAGE)
        assert caught.value.exit_code == 3


@pytest.mark.parametrize("ask", [find_digest, tags_of])
def test_a_registry_that_is_away_is_said(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[str], object]
) -> None:
    def away(*_: object, **__: object) -> None:
        raise requests.ConnectionError("https://robot:word@secret")

    monkeypatch.setattr(requests.Session, "send", away)
    with pytest.raises(RegistryAwayError) as caught:
        ask(IMAGE)
    assert caught.value.what == f"the registry {HOST} does not answer for {IMAGE}: ConnectionError"
