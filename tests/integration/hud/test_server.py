"""The server over real HTTP: each row of the contract's table, the pages, and nothing lost under load."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import requests

from ci.hud.callback import MAX_BYTES
from ci.store.store import Store
from tests.hud_server import create_app, embedded

from .conftest import empty

TOKEN = "s3cret-token"
AUTH = {"Authorization": f"Bearer {TOKEN}"}
REPOSITORY = "torch-spyre/torch-spyre"
TIMEOUT = 20


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Store, list[float]]]:
    """A server, its store and its time."""
    now = [2000.0]
    with closing(Store(tmp_path_factory.mktemp("hud") / "hud.sqlite")) as store:
        app = create_app(store, token=TOKEN, repository=REPOSITORY, clock=lambda: now[0])
        with embedded(app) as base:
            yield base, store, now


@pytest.fixture
def store(served: tuple[str, Store, list[float]]) -> Store:
    empty(served[1])
    # The limit of requests a minute is of a minute that is over.
    served[2][0] += 60
    return served[1]


@pytest.fixture
def url(served: tuple[str, Store, list[float]], store: Store) -> str:
    assert store is served[1]
    return served[0]


def post(url: str, content: Any, headers: dict[str, str] | None = None) -> requests.Response:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return requests.post(
        f"{url}/github/callback", data=data, headers=AUTH if headers is None else headers, timeout=TIMEOUT
    )


def test_a_large_body_is_refused_before_it_is_read(url: str) -> None:
    host = url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=TIMEOUT)
    connection.putrequest("POST", "/github/callback")
    connection.putheader("Authorization", AUTH["Authorization"])
    connection.putheader("Content-Length", str(MAX_BYTES + 1))
    connection.endheaders()
    # Not a byte of the body was sent.
    assert connection.getresponse().status == 413
    connection.close()


def test_a_large_body_of_unknown_length_is_refused(url: str) -> None:
    host = url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=TIMEOUT)
    connection.putrequest("POST", "/github/callback")
    connection.putheader("Authorization", AUTH["Authorization"])
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    piece = b" " * 2**16
    # One byte more than is taken, and no end: the answer cannot have waited for one.
    for size in (*[len(piece)] * (MAX_BYTES // len(piece)), 1):
        connection.send(f"{size:x}\r\n".encode() + piece[:size] + b"\r\n")
    assert connection.getresponse().status == 413
    connection.close()


def test_pages_forbid_whatever_is_not_theirs(url: str) -> None:
    page = requests.get(f"{url}/", timeout=TIMEOUT)
    policy = page.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'nonce-")
    assert "unsafe-inline" not in policy
    nonce = policy.partition("'nonce-")[2].partition("'")[0]
    assert f'<style nonce="{nonce}">' in page.text
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    other = requests.get(f"{url}/", timeout=TIMEOUT).headers["Content-Security-Policy"]
    assert nonce not in other


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/runs/999", 404),
        ("/runs/0", 422),
        ("/runs/x", 422),
        (f"/runs/{2**70}", 422),
        ("/nowhere", 404),
        ("/docs", 404),
        ("/api/runs?limit=0", 422),
        ("/api/runs?limit=100000", 422),
        ("/runs?offset=-1", 422),
        ("/runs?offset=5", 200),
        ("/openapi.json", 200),
    ],
)
def test_odd_addresses_have_plain_answers(url: str, path: str, status: int) -> None:
    answer = requests.get(url + path, timeout=TIMEOUT)
    assert answer.status_code == status
    if status >= 400:
        assert answer.json()["ok"] is False


def test_health_says_how_many_runs_there_are(url: str) -> None:
    told = requests.get(f"{url}/healthz", timeout=TIMEOUT)
    assert told.json() == {"ok": True, "server": "spyre-ci-hud", "runs": 0}
