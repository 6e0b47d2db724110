"""The server over real HTTP: each row of the contract's table, the pages, and nothing lost under load."""

from __future__ import annotations

import http.client
import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import requests

from ci.hud.callback import MAX_BYTES
from ci.hud.server.app import create_app
from ci.hud.server.proof import proof_of_token
from ci.hud.server.queries.jobs import count_jobs
from ci.hud.server.serve import embedded
from ci.hud.server.store import Store

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


def test_a_nightly_is_stored_before_it_is_answered(url: str, store: Store, payload: dict[str, Any]) -> None:
    answer = post(url, payload)
    assert (answer.status_code, answer.json()) == (200, {"ok": True, "status": "completed"})
    assert count_jobs(store.database) == 1


def test_a_pull_requests_job_is_taken_through_its_states(
    url: str, store: Store, payload: dict[str, Any]
) -> None:
    event = {**payload, "event_type": "pull_request", "delivery_id": "d-1"}
    begun = {**event, "workflow": {**payload["workflow"], "status": "in_progress"}}
    refused = post(url, begun)
    assert (refused.status_code, refused.json()["error"]) == (
        400,
        "callback rejected: no matching dispatch record",
    )
    store.dispatch(delivery_id="d-1", repository=REPOSITORY, at=1990)
    assert post(url, begun).json() == {"ok": True, "status": "in_progress"}
    assert "invalid state transition" in post(url, begun).json()["error"]
    assert post(url, event).json() == {"ok": True, "status": "completed"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": "Bearer k\xe4se"},
    ],
)
def test_without_the_token_nothing_is_written(
    url: str, store: Store, payload: dict[str, Any], headers: dict[str, str]
) -> None:
    answer = post(url, payload, headers)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert count_jobs(store.database) == 0


def test_the_path_is_exact_and_takes_posts_only(url: str, payload: dict[str, Any]) -> None:
    slash = requests.post(f"{url}/github/callback/", json=payload, headers=AUTH, timeout=TIMEOUT)
    assert slash.status_code == 404
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        answer = requests.request(method, f"{url}/github/callback", headers=AUTH, timeout=TIMEOUT)
        assert answer.status_code == 405, method


@pytest.mark.parametrize(
    ("path", "value", "error"),
    [
        ("delivery_id", None, "delivery_id"),
        ("workflow", None, "workflow"),
        ("workflow.status", "queued", "workflow.status"),
        ("workflow.run_id", None, "workflow.run_id: must be a whole number"),
        (
            "workflow.run_id",
            "5c0ffee0-uuid",
            'workflow.run_id: must be a whole number (seen: "5c0ffee0-uuid")',
        ),
        ("workflow.run_id", 0, "workflow.run_id"),
        ("workflow.run_id", 1e999, "the body is no JSON"),
        ("workflow.name", "", "workflow.name"),
        ("workflow.job_name", "", "workflow.job_name"),
        ("workflow.job_name", "\ud800", "workflow.job_name"),
        ("workflow.check_run_id", None, "workflow.check_run_id"),
        ("workflow.started_at", "soon", "workflow.started_at"),
        ("workflow.started_at", "0001-01-01T00:00:00+23:59", "workflow.started_at"),
        ("workflow.test_results", {"passed": -1}, "workflow.test_results.passed"),
        ("workflow.test_results", {"passed": 0.5}, "workflow.test_results.passed"),
        ("workflow.test_results", {"passed": 1, "total": 3}, "workflow.test_results: total is 3"),
        ("payload", [], "payload"),
        ("payload", {"pull_request": {"number": "x"}}, "payload.pull_request.number"),
    ],
)
def test_what_breaks_the_contract_is_a_400_that_says_what(
    url: str, payload: dict[str, Any], path: str, value: Any, error: str
) -> None:
    table, _, leaf = path.rpartition(".")
    content = json.loads(json.dumps(payload))
    (content[table] if table else content)[leaf] = value
    answer = post(url, content)
    assert answer.status_code == 400
    assert error in answer.json()["error"]
    assert requests.get(f"{url}/healthz", timeout=TIMEOUT).json()["runs"] == 0


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 200_000, b"9" * 5000])
def test_a_body_that_is_no_callback_is_a_400(url: str, body: bytes) -> None:
    assert post(url, body).status_code == 400


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


def test_a_body_of_just_two_megabytes_is_taken(url: str, payload: dict[str, Any]) -> None:
    spare = MAX_BYTES - len(json.dumps({**payload, "filler": ""}).encode())
    assert post(url, {**payload, "filler": "x" * spare}).status_code == 200


def test_a_store_that_fails_is_a_503_and_the_server_lives_on(
    url: str, store: Store, payload: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(store, "record", full)
    answer = post(url, payload)
    assert (answer.status_code, answer.json()["error"]) == (
        503,
        "the store failed: database or disk is full",
    )
    monkeypatch.undo()
    assert post(url, payload).status_code == 200


def test_the_pages_and_the_api_show_what_came(url: str, payload: dict[str, Any]) -> None:
    post(url, payload)
    told = requests.get(f"{url}/api/runs", timeout=TIMEOUT).json()
    assert (told["total"], told["runs"][0]["passed_tests"]) == (1, 7)
    number = told["runs"][0]["id"]
    index = requests.get(f"{url}/", timeout=TIMEOUT)
    assert f'href="/runs/{number}"' in index.text
    page = requests.get(f"{url}/runs/{number}", timeout=TIMEOUT)
    assert page.status_code == 200
    assert payload["delivery_id"] in page.text


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


def test_pages_load_nothing_from_elsewhere(url: str, payload: dict[str, Any]) -> None:
    post(url, payload)
    for path in ("/", "/runs/1"):
        text = requests.get(url + path, timeout=TIMEOUT).text
        assert "src=" not in text
        assert "http://" not in text
        assert "https://" not in text


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


def test_health_proves_that_it_knows_the_token_without_telling_it(url: str) -> None:
    told = requests.get(f"{url}/healthz", params={"nonce": "abc"}, timeout=TIMEOUT)
    assert told.json() == {
        "ok": True,
        "server": "spyre-ci-hud",
        "runs": 0,
        "proof": proof_of_token(TOKEN, "abc"),
    }
    assert TOKEN not in told.text
    assert "proof" not in requests.get(f"{url}/healthz", timeout=TIMEOUT).json()
    assert proof_of_token(TOKEN, "abd") != proof_of_token(TOKEN, "abc") != proof_of_token("other", "abc")


def test_many_clients_at_once_lose_nothing(url: str, store: Store, payload: dict[str, Any]) -> None:
    answers: list[int] = []

    def client(first: int) -> None:
        for number in range(first, first + 5):
            workflow = {**payload["workflow"], "run_id": number, "check_run_id": number}
            answers.append(post(url, {**payload, "workflow": workflow}).status_code)

    threads = [threading.Thread(target=client, args=(1 + 5 * index,)) for index in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [200] * 100
    assert count_jobs(store.database) == 100


def test_the_server_says_nothing_on_the_users_terminal(
    store: Store, payload: dict[str, Any], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    with embedded(create_app(store, token=TOKEN, repository=REPOSITORY, clock=lambda: 1.0)) as url:
        post(url, payload)
        post(url, payload, {})
        monkeypatch.setattr(store, "record", broken)
        assert post(url, payload).status_code == 500
    assert capfd.readouterr() == ("", "")


def test_the_embedded_server_ends_with_its_block(store: Store) -> None:
    before = threading.active_count()
    with (
        pytest.raises(RuntimeError, match="inside"),
        embedded(create_app(store, token=TOKEN, repository=REPOSITORY, clock=lambda: 1.0)) as url,
    ):
        raise RuntimeError("inside")
    assert threading.active_count() == before
    with pytest.raises(requests.ConnectionError):
        requests.get(url, timeout=TIMEOUT)
