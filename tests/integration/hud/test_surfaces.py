"""What the server takes by its settings: dispatches, webhooks, issuers, reading behind a token; and how it
takes what a hostile client does to a socket."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest
import requests
from cryptography.hazmat.primitives.asymmetric import rsa

from ci.config import Settings
from ci.core.errors import MissingInputError, SettingsError
from ci.hud.opening import open_server
from ci.hud.server.queries.jobs import count_jobs, list_jobs
from ci.store.store import Store
from tests.hud_server import embedded

from .conftest import Faulty, bearer, post_report

MakeSettings = Callable[..., Settings]
REPOSITORY = "torch-spyre/torch-spyre"
SECRET = "a-secret-of-the-closed-network-0123456789"
READ = "a-token-for-reading"
HOOK = "the-secret-of-the-webhook-0123456789"
NOW = 1_785_000_000.0
TIMEOUT = 20


def secret(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text + "\n")
    return name


@contextmanager
def serving(settings: Settings, said: list[str] | None = None) -> Iterator[tuple[str, Store, str]]:
    warn = (said if said is not None else []).append
    with open_server(settings, {}, clock=lambda: NOW, warn=warn) as server, embedded(server.app) as url:
        yield url, server.store, (settings.state_dir / "hud-token").read_text().strip()


def ask(method: str, url: str, **more: Any) -> requests.Response:
    return requests.request(method, url, timeout=TIMEOUT, **more)


@pytest.fixture
def plain(settings: MakeSettings) -> Iterator[tuple[str, Store, str]]:
    with serving(settings()) as running:
        yield running


@pytest.fixture
def locked(settings: MakeSettings, tmp_path: Path) -> Iterator[tuple[str, Store, str]]:
    with serving(settings(hud__read_token=secret(tmp_path, "read", READ))) as running:
        yield running


# --- dispatches


def test_a_dispatched_job_is_taken_and_twice_is_once(
    plain: tuple[str, Store, str], payload: dict[str, Any]
) -> None:
    url, _, token = plain
    for new in (True, False):
        answer = ask("post", f"{url}/api/dispatch", json={"delivery_id": "d-1"}, headers=bearer(token))
        assert answer.json() == {"ok": True, "repository": REPOSITORY, "new": new}
    workflow = {**payload["workflow"], "status": "in_progress"}
    begun = {**payload, "event_type": "pull_request", "delivery_id": "d-1", "workflow": workflow}
    assert post_report(url, begun, token).json() == {"ok": True, "status": "in_progress"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"delivery_id": ""}, 400),
        ({"delivery_id": "d", "repository": "no slash"}, 400),
        ({"delivery_id": "d", "more": 1}, 400),
        ([], 400),
        ({"delivery_id": "d", "repository": "owner/other"}, 403),
    ],
)
def test_a_dispatch_that_is_not_right_is_refused(
    plain: tuple[str, Store, str], body: Any, status: int
) -> None:
    url, _, token = plain
    for given, expected in ((token, status), ("wrong", 401)):
        answer = ask("post", f"{url}/api/dispatch", json=body, headers=bearer(given))
        assert (answer.status_code, answer.json()["ok"]) == (expected, False)


def event(action: str) -> bytes:
    return json.dumps({"action": action, "pull_request": {"number": 7}}).encode()


def hook(body: bytes, text: str = HOOK, **headers: str) -> dict[str, str]:
    digest = hmac.new(text.encode(), body, hashlib.sha256).hexdigest()
    given = {
        "X-Hub-Signature-256": f"sha256={digest}",
        "X-GitHub-Event": "pull_request",
        "X-GitHub-Delivery": "72d3162e-cc78",
        "Content-Type": "application/json",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    return {name: value for name, value in given.items() if value}


WEBHOOKS = [
    ("opened", event("opened"), {}, 200, "dispatched"),
    ("new commits", event("synchronize"), {}, 200, "dispatched"),
    ("closed", event("closed"), {}, 200, "ignored"),
    ("a push", event("opened"), {"X_GitHub_Event": "push"}, 200, "ignored"),
    ("a ping", b'{"zen": "x"}', {"X_GitHub_Event": "ping"}, 200, "ignored"),
    ("another body", event("opened"), {"X_Hub_Signature_256": "sha256=" + "0" * 64}, 401, ""),
    ("SHA-1 alone", event("opened"), {"X_Hub_Signature_256": "", "X_Hub_Signature": "sha1=0"}, 401, ""),
    ("no delivery", event("opened"), {"X_GitHub_Delivery": ""}, 400, ""),
    ("a form", event("opened"), {"Content_Type": "application/x-www-form-urlencoded"}, 400, ""),
    ("no JSON", b"{", {}, 400, ""),
    ("a list of actions", b'{"action": ["opened"]}', {}, 200, "ignored"),
    ("a table of actions", b'{"action": {}}', {}, 200, "ignored"),
]


@pytest.mark.parametrize("row", WEBHOOKS, ids=lambda row: row[0])
def test_each_webhook(
    settings: MakeSettings, tmp_path: Path, row: tuple[str, bytes, dict[str, str], int, str]
) -> None:
    _, body, changes, status, said = row
    there = settings(hud__webhook_secret=secret(tmp_path, "hook", HOOK))
    with serving(there) as (url, store, _):
        answer = ask("post", f"{url}/github/webhook", data=body, headers=hook(body, **changes))
        assert (answer.status_code, answer.json().get("status", "")) == (status, said)
        states = store.database.rows("SELECT key FROM callback_state")
        assert states == [{"key": f"72d3162e-cc78:{REPOSITORY}"}] * (said == "dispatched")


def test_without_a_secret_no_webhook_is_taken(plain: tuple[str, Store, str]) -> None:
    body = event("opened")
    answer = ask("post", f"{plain[0]}/github/webhook", data=body, headers=hook(body, ""))
    assert answer.status_code == 401


# --- reading behind a token


@pytest.mark.parametrize("path", ["/", "/api/runs", "/runs/1", "/openapi.json", "/nowhere", "/login/x"])
def test_without_a_token_nothing_is_read(locked: tuple[str, Store, str], path: str) -> None:
    url, _, token = locked
    for headers in ({}, bearer("wrong"), bearer(""), {"Cookie": f"spyre_ci_hud={READ}"}, {"Cookie": '";=,'}):
        for method in ("GET", "HEAD"):
            answer = ask(method, url + path, headers=headers)
            assert answer.status_code == 401, (headers, method)
    for good in (READ, token):
        assert ask("get", url + path, headers=bearer(good)).status_code != 401


def test_health_stays_open_and_reading_gives_no_right_to_write(
    locked: tuple[str, Store, str], payload: dict[str, Any]
) -> None:
    url, store, token = locked
    assert ask("get", f"{url}/healthz").status_code == 200
    assert post_report(url, payload, READ).status_code == 401
    assert post_report(url, payload, token).status_code == 200
    assert count_jobs(store.database) == 1


def test_people_sign_in_with_a_form_and_come_back_to_their_page(locked: tuple[str, Store, str]) -> None:
    url, _, _token = locked
    with requests.Session() as session:
        session.headers["Accept"] = "text/html"
        form = session.get(f"{url}/?offset=0", timeout=TIMEOUT)
        assert form.url == f"{url}/login?next=/%3Foffset%3D0"
        assert 'value="/?offset=0"' in form.text
        assert "form-action 'self'" in form.headers["Content-Security-Policy"]
        wrong = session.post(f"{url}/login", data={"token": "no", "next": "/"}, timeout=TIMEOUT)
        assert (wrong.status_code, "That is not the token" in wrong.text) == (401, True)
        page = session.post(f"{url}/login", data={"token": READ, "next": "/?offset=0"}, timeout=TIMEOUT)
        assert (page.status_code, page.url) == (200, f"{url}/?offset=0")
        cookie = page.history[0].headers["Set-Cookie"]
        for part in ("HttpOnly", "SameSite=strict", "Path=/"):
            assert part in cookie
        assert READ not in cookie
        assert session.get(f"{url}/api/runs", timeout=TIMEOUT).status_code == 200


ELSEWHERE = ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", "/ü"]


@pytest.mark.parametrize("where", [*ELSEWHERE, "", "/\r\nX: y"])
def test_signing_in_leads_nowhere_else(locked: tuple[str, Store, str], where: str) -> None:
    url, _, _token = locked
    answer = ask("post", f"{url}/login", data={"token": READ, "next": where}, allow_redirects=False)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    form = ask("get", f"{url}/login", params={"next": '"><script>alert(1)</script>'})
    assert "<script>" not in form.text


def test_a_form_of_a_thousand_fields_is_refused(locked: tuple[str, Store, str]) -> None:
    url, _, _token = locked
    many = "&".join(f"a{n}=1" for n in range(1000))
    assert ask("post", f"{url}/login", data=many).status_code == 400
    assert ask("post", f"{url}/login", data="a" * 20_000).status_code == 413


def test_without_a_token_in_the_settings_everybody_reads(plain: tuple[str, Store, str]) -> None:
    assert [ask("get", plain[0] + path).status_code for path in ("/api/runs", "/login")] == [200, 404]


# --- settings that cannot be used


@pytest.mark.parametrize("text", ["", "short", "with a blank in it, and long enough otherwise"])
def test_a_weak_secret_is_refused_and_not_shown(settings: MakeSettings, tmp_path: Path, text: str) -> None:
    there = settings(hud__ingest_token=secret(tmp_path, "weak", text))
    with (
        pytest.raises(SettingsError, match="must contain a secret of at least 32 characters") as caught,
        serving(there),
    ):
        pass
    assert "hud.ingest_token" in str(caught.value)
    assert not text or text not in str(caught.value)


def test_a_secret_or_list_that_is_not_there_is_named(settings: MakeSettings) -> None:
    for key in ("read_token", "webhook_secret", "allow_list"):
        with (
            pytest.raises(MissingInputError, match="gone"),
            serving(settings(**{f"hud__{key}": "gone"})),
        ):
            pass


def test_an_allow_list_without_our_own_repository_is_said(settings: MakeSettings, tmp_path: Path) -> None:
    (tmp_path / "list.yaml").write_text("L2: [Torch-Spyre/torch-spyre]\n")
    said: list[str] = []
    with serving(settings(hud__allow_list="list.yaml"), said):
        pass
    (line,) = said
    assert f"{REPOSITORY} (report.repository) is not listed at L2 or above" in line


# --- an issuer over real HTTP


class Issuing:
    """An issuer: its key, its address, and what it answers to whoever asks for its keys."""

    def __init__(self, server: Faulty) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        self.server, self.url = server, server.url
        self.server.otherwise = (200, {}, json.dumps({"keys": [{**jwk, "kid": "k"}]}))

    @property
    def asked(self) -> list[str]:
        return [request["path"] for request in self.server.requests]

    def token(self, **claims: Any) -> str:
        said = {"iss": self.url, "aud": "hud", "exp": time.time() + 60, **claims}
        return jwt.encode(said, self.key, algorithm="RS256", headers={"kid": "k"})


@pytest.fixture
def issuing(faulty: Faulty) -> Issuing:
    return Issuing(faulty)


def test_a_jenkins_job_reports_with_a_token_of_its_plugin(
    settings: MakeSettings, issuing: Issuing, payload: dict[str, Any]
) -> None:
    issuing.url += "/oidc"
    job = "https://jenkins.example/job/spyre/job/nightly/"
    token = issuing.token(sub=job, build_number=7)
    mapped = {"https://jenkins.example/job/spyre/*": REPOSITORY}
    known = {"url": issuing.url, "kind": "jenkins", "audience": "hud", "repositories": mapped}
    with serving(settings(hud__issuers=[known])) as (url, store, _):
        for _ in range(3):
            answer = post_report(url, payload, token)
            assert answer.json() == {"ok": True, "status": "completed"}
        assert list_jobs(store.database, limit=1)[0]["downstream_repo"] == REPOSITORY
    assert issuing.asked == ["/oidc/jwks"]


FETCHES: list[tuple[str, tuple[int, dict[str, str], str]]] = [
    ("a redirect", (302, {"Location": "http://127.0.0.1:1/"}, "")),
    ("an error", (500, {}, "")),
    ("no JSON", (200, {}, "<html>")),
    ("a megabyte", (200, {}, "[" + " " * 2**20 + "]")),
    ("deep lists", (200, {}, "[" * 100_000)),
    ("a list", (200, {}, "[]")),
]


@pytest.mark.parametrize("row", FETCHES, ids=lambda row: row[0])
def test_keys_that_cannot_be_had_are_a_503_and_are_not_asked_for_at_once_again(
    settings: MakeSettings,
    issuing: Issuing,
    payload: dict[str, Any],
    row: tuple[str, tuple[int, dict[str, str], str]],
) -> None:
    issuing.server.otherwise = row[1]
    token = issuing.token(repository=REPOSITORY)
    with serving(settings(hud__issuers=[{"url": issuing.url, "audience": "hud"}])) as (url, _, _token):
        for _ in range(3):
            answer = post_report(url, payload, token)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "11")
            assert token not in answer.text
    assert issuing.asked == ["/.well-known/jwks"]


def test_an_issuer_whose_keys_drip_holds_up_nobody_else(
    settings: MakeSettings, issuing: Issuing, payload: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci.hud.server.issuers.TOTAL_S", 1.0)
    issuing.server.otherwise = "drip"
    token = issuing.token(repository=REPOSITORY)
    with serving(settings(hud__issuers=[{"url": issuing.url, "audience": "hud"}])) as (url, store, own):
        # More than there are threads.
        with ThreadPoolExecutor(60) as pool:
            waiting = [pool.submit(post_report, url, payload, token) for _ in range(60)]
            while not issuing.asked:
                time.sleep(0.01)
            assert post_report(url, payload, own).status_code == 200
            assert not all(one.done() for one in waiting)
            answers = [one.result() for one in waiting]
        assert {answer.status_code for answer in answers} == {503}
        assert len(issuing.asked) == 1
        assert count_jobs(store.database) == 1


# --- hostile sockets


def raw(url: str, *pieces: bytes) -> bytes:
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT) as connection:
        for piece in pieces:
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)
        said = b""
        while chunk := connection.recv(65536):
            said += chunk
        return said


SMUGGLED = [
    b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    b"Content-Length: -5\r\n\r\n",
    b"Content-Length: 1e3\r\n\r\n",
    b"Content-Length: " + b"9" * 400 + b"\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n\r\n",
    b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    b"Bad Header: x\r\n\r\n",
    b"X: a\0b\r\n\r\n",
    b"X: " + b"a" * 100_000 + b"\r\n\r\n",
]


@pytest.mark.parametrize("rest", SMUGGLED, ids=range(len(SMUGGLED)))
def test_a_request_in_a_request_is_never_taken(
    plain: tuple[str, Store, str], rest: bytes, payload: dict[str, Any]
) -> None:
    url, store, token = plain
    head = f"POST /github/callback HTTP/1.1\r\nHost: hud\r\nAuthorization: Bearer {token}\r\n".encode()
    said = raw(url, head + rest)
    assert said.count(b"HTTP/1.1 ") <= 1
    assert b" 200 " not in said.split(b"\r\n")[0]
    assert b" 500 " not in said.split(b"\r\n")[0]
    assert count_jobs(store.database) == 0
    answer = post_report(url, payload, token)
    assert answer.status_code == 200


def test_a_body_that_ends_too_soon_writes_nothing(plain: tuple[str, Store, str]) -> None:
    url, store, token = plain
    head = f"POST /github/callback HTTP/1.1\r\nHost: hud\r\nAuthorization: Bearer {token}\r\n"
    raw(url, head.encode() + b"Content-Length: 100\r\n\r\n{")
    assert count_jobs(store.database) == 0


def test_a_body_that_drips_is_given_up(
    plain: tuple[str, Store, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _, token = plain
    monkeypatch.setattr("ci.hud.server.http.BODY_TIMEOUT_S", 0.2)
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=TIMEOUT)
    connection.putrequest("POST", "/github/callback")
    connection.putheader("Authorization", f"Bearer {token}")
    connection.putheader("Content-Length", "1000")
    connection.endheaders()
    connection.send(b"{")
    assert connection.getresponse().status == 408
    connection.close()


ODD = [
    b'{"delivery_id": "a", "delivery_id": ["b"]}',
    b'{"a": Infinity}',
    b'{"a": -Infinity}',
    b'{"a": 1e400}',
    b'{"a": "\\ud800"}',
    b'{"workflow": {"run_id": 1e400}}',
    b'{"workflow": {"run_id": ' + b"9" * 5000 + b"}}",
    b'{"a":' * 5000 + b"1" + b"}" * 5000,
    b"\xef\xbb\xbf{}",
    b'{"delivery_id": 5}',
    b"null",
    b"\0" * 1000,
]


@pytest.mark.parametrize("path", ["/github/callback", "/api/dispatch", "/api/crcr/results"])
def test_an_odd_body_is_never_a_crash(settings: MakeSettings, tmp_path: Path, path: str) -> None:
    there = settings(hud__ingest_token=secret(tmp_path, "relay", SECRET))
    with serving(there) as (url, store, token):
        for body in ODD:
            headers = {**bearer(token), "x-hud-internal-bot": SECRET, "Content-Type": "text/plain"}
            answer = ask("post", url + path, data=body, headers=headers)
            assert answer.status_code == 400, (body[:60], answer.text)
            assert answer.json()
        assert count_jobs(store.database) == 0
