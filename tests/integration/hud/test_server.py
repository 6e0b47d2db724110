"""The server over real HTTP: bodies that are too large, what pages may load, odd addresses."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import closing

import pytest
import requests

from ci.hud.callback import MAX_BYTES
from ci.store.store import Store
from tests.hud_server import create_app, embedded

TOKEN = "s3cret-token"
TIMEOUT = 20


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with closing(Store(tmp_path_factory.mktemp("hud") / "hud.sqlite")) as store:
        app = create_app(store, token=TOKEN, repository="torch-spyre/torch-spyre", clock=lambda: 2000.0)
        with embedded(app) as base:
            yield base


@pytest.mark.parametrize("says_its_length", [True, False])
def test_a_large_body_is_refused_before_it_ends(url: str, *, says_its_length: bool) -> None:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=TIMEOUT)
    connection.putrequest("POST", "/github/callback")
    connection.putheader("Authorization", f"Bearer {TOKEN}")
    if says_its_length:
        # Not a byte of the body is sent.
        connection.putheader("Content-Length", str(MAX_BYTES + 1))
        connection.endheaders()
    else:
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
