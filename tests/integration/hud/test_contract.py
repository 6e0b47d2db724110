"""The contract, replayed row by row against the server, as it is by default and as upstream (strict).

Each row says what is sent and what each mode answers; fields not named are those of a good report.
"""

from __future__ import annotations

import asyncio
import copy
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient, Response

from ci.config.hud_model import Issuer
from ci.hud.callback import MAX_BYTES
from ci.hud.server.allow_list import AllowList
from ci.hud.server.app import create_app
from ci.hud.server.gate import Gate, RateLimit
from ci.hud.server.issuers import Issuers, KeysUnavailableError
from ci.hud.server.queries.jobs import list_jobs
from ci.hud.server.record import note_dispatched
from ci.hud.server.sweep import SILENT_S, sweep
from ci.store.store import Store

from .conftest import empty

NOW = 1_785_000_000.0
TOKEN = "the-servers-own-token"
BOT = "the-relays-own-token-of-32-characters"
REPOSITORY = "torch-spyre/torch-spyre"
GITHUB = "https://token.actions.githubusercontent.com"
BUILDKITE = "https://agent.buildkite.com"
JENKINS = "https://jenkins.example/oidc"
PATH = "/github/callback"
RESULTS = "/api/crcr/results"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
LISTED = f"""
L1: [owner/at-l1]
L2: [{REPOSITORY}, owner/at-l2]
L3: {{spyre: {{owner/at-l3: [someone]}}}}
L4: ["owner/at-l4: someone, else"]
""".replace('["owner/at-l4: someone, else"]', "[{owner/at-l4: someone}]")
MODES = ("default", "strict")
GONE = object()


def jwks() -> dict[str, Any]:
    key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
    return {"keys": [{**key, "kid": "k1", "alg": "RS256", "use": "sig"}]}


def token_of(key: Any = KEY, kid: str = "k1", **claims: Any) -> str:
    said = {
        "iss": GITHUB,
        "aud": "pytorch-cross-repo-ci-relay",
        "exp": NOW + 300,
        "iat": NOW,
        "nbf": NOW,
        "sub": f"repo:{REPOSITORY}:ref:refs/heads/main",
        "repository": REPOSITORY,
        **claims,
    }
    content = {name: value for name, value in said.items() if value is not GONE}
    return jwt.encode(content, key, algorithm="RS256", headers={"kid": kid})


class Client:
    """Requests to an application without a socket between."""

    def __init__(self, app: FastAPI) -> None:
        self._transport = ASGITransport(app, raise_app_exceptions=False)

    def request(self, method: str, path: str, **options: Any) -> Response:
        async def exchange() -> Response:
            async with AsyncClient(transport=self._transport, base_url="http://hud") as client:
                return await client.request(method, path, **options)

        return asyncio.run(exchange())

    def post(self, path: str, **options: Any) -> Response:
        return self.request("POST", path, **options)


class World:
    """A server in one mode, its store, and time that the test moves."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.mode = mode
        self.path = folder / "hud.sqlite"
        self.store = Store(self.path)
        listed = folder / "allow-list.yaml"
        listed.write_text(LISTED)
        self.issuers = [
            Issuer(url=GITHUB, kind="github"),
            Issuer(url=BUILDKITE, kind="buildkite", repositories={"spyre/nightly": REPOSITORY}),
            Issuer(
                url=JENKINS,
                kind="jenkins",
                repositories={"https://jenkins.example/job/spyre/*": REPOSITORY},
            ),
        ]
        self.gate = Gate(
            token=TOKEN,
            repository=REPOSITORY,
            levels=AllowList(listed, warn=print),
            limit=RateLimit(100, self.clock),
            clock=self.clock,
            strict=mode == "strict",
            ingest_token=BOT,
        )
        self.client = self.client_of(self.gate)

    def begin_anew(self) -> None:
        """As if nothing had been sent: the application stays, which takes long to make."""
        self.now = NOW
        self.reachable = True
        empty(self.store)
        issuers = Issuers(self.issuers, clock=self.clock, fetch=self.fetch)
        for name, value in (("limit", RateLimit(100, self.clock)), ("issuers", issuers)):
            object.__setattr__(self.gate, name, value)

    def client_of(self, gate: Gate) -> Client:
        app = create_app(self.store, token=TOKEN, repository=REPOSITORY, clock=self.clock, gate=gate)
        return Client(app)

    def clock(self) -> float:
        return self.now

    def fetch(self, url: str) -> Any:
        if not self.reachable:
            raise KeysUnavailableError(f"{url} cannot be read")
        return jwks()

    def post(self, content: Any, *, token: str | None = None, path: str = PATH) -> Response:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        headers = {"Authorization": f"Bearer {token_of() if token is None else token}"}
        return self.client.post(path, content=body, headers=headers)

    def ingest(self, content: Any, *, bot: str = BOT) -> Response:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return self.client.post(RESULTS, content=body, headers={"x-hud-internal-bot": bot})

    def said(self, answer: Response) -> str:
        """The reason of a refusal, under the name each mode has for it."""
        content = answer.json()
        assert set(content) == ({"detail"} if self.mode == "strict" else {"ok", "error"}), content
        return str(content["detail" if self.mode == "strict" else "error"])

    def rows(self) -> list[dict[str, Any]]:
        return list_jobs(self.store.database, limit=1000)

    def states(self) -> dict[str, str]:
        with closing(sqlite3.connect(self.path)) as connection:
            return dict(connection.execute("SELECT key, state FROM callback_state"))


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, World]]:
    made = {mode: World(tmp_path_factory.mktemp(mode), mode) for mode in MODES}
    yield made
    for world in made.values():
        world.store.close()


@pytest.fixture(params=MODES)
def world(request: pytest.FixtureRequest, worlds: dict[str, World]) -> World:
    world = worlds[request.param]
    world.begin_anew()
    return world


def only(mode: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("world", [mode], indirect=True)


def full(*_: Any, **__: Any) -> None:
    """A store's step, on a disk without room."""
    raise sqlite3.OperationalError("database or disk is full")


def bent(content: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with one key set, or taken out."""
    copied = copy.deepcopy(content)
    *parents, leaf = path.split(".")
    table = copied
    for parent in parents:
        table = table[parent]
    if value is GONE:
        table.pop(leaf, None)
    else:
        table[leaf] = value
    return copied


def pull_request(payload: dict[str, Any], status: str = "in_progress", **workflow: Any) -> dict[str, Any]:
    event = {"pull_request": {"number": 7, "head": {"sha": "a" * 40}}}
    content = {**payload, "event_type": "pull_request", "delivery_id": "d-1", "payload": event}
    return {**content, "workflow": {**payload["workflow"], "status": status, **workflow}}


# --- A: the fields. (key, value, default's answer, strict's answer, what the default one says)

FIELDS: list[tuple[str, Any, int, int, str]] = [
    ("event_type", "nightly", 200, 200, ""),
    ("event_type", "periodic", 200, 200, ""),
    ("event_type", "pull_request", 400, 400, "no matching dispatch record"),
    ("event_type", "", 400, 400, "no matching dispatch record"),
    ("event_type", GONE, 400, 400, "no matching dispatch record"),
    ("event_type", 7, 400, 400, "event_type"),
    ("event_type", ["nightly"], 400, 500, "event_type"),
    ("delivery_id", "any text", 200, 200, ""),
    ("delivery_id", GONE, 400, 400, "delivery_id: is missing"),
    ("delivery_id", "", 400, 200, "delivery_id"),
    ("delivery_id", None, 400, 200, "delivery_id"),
    ("payload", GONE, 200, 200, ""),
    ("payload", {}, 200, 200, ""),
    ("payload", {"anything": {"else": [1, None]}}, 200, 200, ""),
    ("payload", {"repository": {"full_name": "pytorch/vision"}}, 200, 200, ""),
    ("payload", {"pull_request": {"number": 12, "head": {"sha": "b" * 40}}}, 200, 200, ""),
    ("payload", [], 400, 200, "payload"),
    ("payload", "text", 400, 200, "payload"),
    ("payload", {"pull_request": {"number": "x"}}, 400, 200, "payload.pull_request.number"),
    ("workflow", GONE, 400, 400, "workflow: is missing"),
    ("workflow", "text", 400, 400, "workflow"),
    ("workflow", [], 400, 400, "workflow"),
    ("workflow.status", "completed", 200, 200, ""),
    ("workflow.status", "in_progress", 400, 400, "must have status 'completed'"),
    ("workflow.status", "queued", 400, 400, "workflow.status"),
    ("workflow.status", GONE, 400, 400, "workflow.status: is missing"),
    ("workflow.status", None, 400, 400, "workflow.status"),
    ("workflow.run_id", 99, 200, 200, ""),
    ("workflow.run_id", "99", 200, 200, ""),
    ("workflow.run_id", 99.0, 200, 200, ""),
    ("workflow.run_id", GONE, 400, 400, "workflow.run_id: is missing"),
    ("workflow.run_id", None, 400, 400, "workflow.run_id"),
    ("workflow.run_id", [], 400, 400, "workflow.run_id"),
    (
        "workflow.run_id",
        "5c0ffee0-uuid",
        400,
        500,
        'workflow.run_id: must be a whole number (seen: "5c0ffee0-uuid")',
    ),
    ("workflow.run_id", "", 400, 500, "workflow.run_id"),
    ("workflow.run_id", 0, 400, 200, "workflow.run_id"),
    ("workflow.run_id", -1, 400, 200, "workflow.run_id"),
    ("workflow.run_id", True, 400, 200, "workflow.run_id"),
    ("workflow.run_id", 99.5, 400, 200, "workflow.run_id"),
    ("workflow.run_id", 10**30, 400, 200, "workflow.run_id"),
    ("workflow.run_attempt", 3, 200, 200, ""),
    ("workflow.run_attempt", "3", 200, 200, ""),
    ("workflow.run_attempt", GONE, 200, 200, ""),
    ("workflow.run_attempt", None, 400, 400, "workflow.run_attempt"),
    ("workflow.run_attempt", "third", 400, 500, "workflow.run_attempt"),
    ("workflow.run_attempt", 0, 400, 200, "workflow.run_attempt"),
    ("workflow.name", GONE, 400, 400, "workflow.name: is missing"),
    ("workflow.name", "", 400, 200, "workflow.name"),
    ("workflow.name", 5, 400, 200, "workflow.name"),
    ("workflow.job_name", GONE, 400, 500, "workflow.job_name: is missing"),
    ("workflow.job_name", "", 400, 500, "workflow.job_name"),
    ("workflow.job_name", None, 400, 500, "workflow.job_name"),
    ("workflow.job_name", "with: colon", 200, 200, ""),
    ("workflow.job_name", "\ud800", 400, 200, "workflow.job_name"),
    ("workflow.check_run_id", 123456, 200, 200, ""),
    ("workflow.check_run_id", "text too", 200, 200, ""),
    ("workflow.check_run_id", GONE, 400, 500, "workflow.check_run_id: is missing"),
    ("workflow.check_run_id", None, 400, 500, "workflow.check_run_id"),
    ("workflow.check_run_id", {}, 400, 200, "workflow.check_run_id"),
    ("workflow.conclusion", "success", 200, 200, ""),
    ("workflow.conclusion", "timed_out", 200, 200, ""),
    ("workflow.conclusion", None, 200, 200, ""),
    ("workflow.conclusion", GONE, 200, 200, ""),
    ("workflow.conclusion", "anything", 200, 200, ""),
    ("workflow.conclusion", 3, 400, 200, "workflow.conclusion"),
    ("workflow.started_at", "2026-08-01T02:00:00Z", 200, 200, ""),
    ("workflow.started_at", "2026-08-01T02:00:00.123456+02:00", 200, 200, ""),
    ("workflow.started_at", GONE, 200, 200, ""),
    ("workflow.started_at", "yesterday", 400, 200, "workflow.started_at"),
    ("workflow.started_at", 1785000000, 400, 200, "workflow.started_at"),
    ("workflow.completed_at", "2026-13-01T00:00:00Z", 400, 200, "workflow.completed_at"),
    ("workflow.completed_at", "2300-01-01T00:00:00Z", 400, 200, "workflow.completed_at"),
    ("workflow.completed_at", "2261-12-31T23:59:59-23:59", 400, 200, "workflow.completed_at"),
    ("workflow.completed_at", "2026-08-01T01:00:00Z", 400, 200, "is before started_at"),
    ("workflow.started_at", "1970-01-01T00:00:00+14:00", 400, 200, "workflow.started_at"),
    ("workflow.started_at", "0001-01-01T00:00:00+23:59", 400, 200, "workflow.started_at"),
    ("workflow.test_results", {"passed": 1, "failed": 2, "skipped": 3, "total": 6}, 200, 200, ""),
    ("workflow.test_results", {"passed": 1, "failed": 2, "skipped": 3}, 200, 200, ""),
    ("workflow.test_results", {}, 200, 200, ""),
    ("workflow.test_results", None, 200, 200, ""),
    ("workflow.test_results", {"passed": -1}, 400, 200, "workflow.test_results.passed"),
    ("workflow.test_results", {"passed": 0.5}, 400, 200, "workflow.test_results.passed"),
    ("workflow.test_results", {"passed": "5"}, 400, 200, "workflow.test_results.passed"),
    ("workflow.test_results", {"passed": 2**53}, 400, 200, "workflow.test_results.passed"),
    ("workflow.test_results", {"passed": 1, "total": 5}, 400, 200, "total is 5"),
    ("workflow.test_results", "many", 400, 200, "workflow.test_results"),
    ("workflow.artifact_url", "anything at all", 200, 200, ""),
    ("workflow.artifact_url", 5, 400, 200, "workflow.artifact_url"),
    ("workflow.url", "javascript:alert(1)", 200, 200, ""),
    ("workflow.url", [], 400, 200, "workflow.url"),
    ("workflow.schema_version", "1", 200, 200, ""),
    ("workflow.schema_version", GONE, 200, 200, ""),
]


def _name(row: tuple[str, Any, int, int, str]) -> str:
    value = "missing" if row[1] is GONE else json.dumps(row[1])[:40]
    return f"{row[0]} {value}"


@pytest.mark.parametrize("row", FIELDS, ids=_name)
def test_each_field_of_a_callback(
    world: World, row: tuple[str, Any, int, int, str], payload: dict[str, Any]
) -> None:
    key, value, by_default, as_upstream, reason = row
    answer = world.post(bent(payload, key, value))
    expected = as_upstream if world.mode == "strict" else by_default
    assert answer.status_code == expected, answer.text
    if expected == 200:
        assert answer.json() == {"ok": True, "status": "completed"}
        assert len(world.rows()) == 1
    else:
        said = world.said(answer)
        assert world.rows() == []
        assert world.mode == "strict" or reason in said, said
        assert (
            world.mode == "default"
            or expected != 500
            or said.startswith(("Internal server error", "HUD failed"))
        )


@only("strict")
@pytest.mark.parametrize(
    ("counts", "columns"),
    [
        ({"passed": -1, "failed": 2}, (0, 2, 0, 2)),
        ({"passed": 0.5, "failed": 2, "total": 3}, (0, 2, 0, 3)),
        ({"passed": "5", "skipped": 1}, (0, 0, 1, 1)),
        ({"passed": 1, "total": 5}, (1, 0, 0, 5)),
    ],
)
def test_strict_keeps_the_row_without_the_counts_no_column_can_hold(
    world: World, payload: dict[str, Any], counts: dict[str, Any], columns: tuple[int, ...]
) -> None:
    assert world.post(bent(payload, "workflow.test_results", counts)).status_code == 200
    (row,) = world.rows()
    assert tuple(row[f"{name}_tests"] for name in ("passed", "failed", "skipped", "total")) == columns


@only("strict")
@pytest.mark.parametrize("value", ["yesterday", 5, "2300-01-01T00:00:00Z", [], "\ud800"])
def test_strict_keeps_the_row_without_a_time_that_is_none(
    world: World, payload: dict[str, Any], value: Any
) -> None:
    assert world.post(bent(payload, "workflow.started_at", value)).status_code == 200
    assert [row["started_at"] for row in world.rows()] == [""]


# --- A: the request itself, before any field

BODIES: list[tuple[str, bytes, int, int]] = [
    ("nothing", b"", 400, 400),
    ("half an object", b"{", 400, 400),
    ("a list", b"[]", 400, 500),
    ("null", b"null", 400, 500),
    ("text", b'"x"', 400, 500),
    ("a number", b"5", 400, 500),
    ("no UTF-8", b"{\xff}", 400, 500),
    ("a number of 5,000 digits", b"9" * 5000, 400, 500),
    ("100,000 lists in each other", b"[" * 100_000, 400, 500),
    ("NaN", b'{"delivery_id": NaN}', 400, 400),
]


@pytest.mark.parametrize("row", BODIES, ids=lambda row: row[0])
def test_each_body_that_is_no_callback(world: World, row: tuple[str, bytes, int, int]) -> None:
    _, body, by_default, as_upstream = row
    answer = world.post(body)
    assert answer.status_code == (as_upstream if world.mode == "strict" else by_default)
    said = world.said(answer)
    assert world.mode == "default" or answer.status_code == 400 or said == "Internal server error"
    assert world.rows() == []


@only("strict")
def test_upstreams_text_for_no_json(world: World) -> None:
    assert world.post(b"{").json() == {"detail": "Invalid JSON body"}


@pytest.mark.parametrize("path", [f"{PATH}/", f"{PATH}/x", "/github", "/github/Callback"])
def test_another_path_is_a_404(world: World, path: str, payload: dict[str, Any]) -> None:
    assert world.post(payload, path=path).status_code == 404
    assert world.rows() == []


@only("strict")
def test_upstreams_text_for_a_trailing_slash(world: World, payload: dict[str, Any]) -> None:
    assert world.post(payload, path=f"{PATH}/").json() == {"detail": "Not found"}


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", [PATH, RESULTS])
def test_another_method_is_a_405(world: World, path: str, method: str) -> None:
    answer = world.client.request(method, path, headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 405


def test_more_than_two_megabytes_is_a_413(world: World, payload: dict[str, Any]) -> None:
    assert world.post({**payload, "filler": "x" * MAX_BYTES}).status_code == 413
    room = MAX_BYTES - len(json.dumps({**payload, "filler": ""}))
    assert world.post({**payload, "filler": "x" * room}).status_code == 200


# --- A: who. (what is sent for a token, default's answer, strict's answer)

TOKENS: list[tuple[str, Callable[[], str], int, int]] = [
    ("the server's own token", lambda: f"Bearer {TOKEN}", 200, 200),
    ("a GitHub token", lambda: f"Bearer {token_of()}", 200, 200),
    ("a GitHub token, bearer in another case", lambda: f"bEaReR {token_of()}", 200, 200),
    ("a GitHub token without the word Bearer", token_of, 401, 200),
    ("nothing", lambda: "", 401, 401),
    ("Bearer alone", lambda: "Bearer ", 401, 401),
    ("the server's own token and more", lambda: f"Bearer {TOKEN}x", 401, 401),
    ("a letter that is not ASCII", lambda: "Bearer k\xe4se", 401, 401),
    ("no JWT", lambda: "Bearer abc", 401, 401),
    ("an empty JWT", lambda: "Bearer ..", 401, 401),
    ("Basic", lambda: f"Basic {TOKEN}", 401, 401),
    ("another audience", lambda: f"Bearer {token_of(aud='sts.amazonaws.com')}", 401, 401),
    ("no audience", lambda: f"Bearer {token_of(aud=GONE)}", 401, 401),
    ("another issuer", lambda: f"Bearer {token_of(iss='https://evil.example')}", 401, 401),
    ("no issuer", lambda: f"Bearer {token_of(iss=GONE)}", 401, 401),
    ("a list for an issuer", lambda: f"Bearer {token_of(iss=GITHUB + '/')}", 401, 401),
    ("an expired token", lambda: f"Bearer {token_of(exp=NOW - 60)}", 401, 401),
    ("expired within the leeway", lambda: f"Bearer {token_of(exp=NOW - 10)}", 200, 200),
    ("without an end", lambda: f"Bearer {token_of(exp=GONE)}", 401, 401),
    ("not valid yet", lambda: f"Bearer {token_of(nbf=NOW + 60)}", 401, 401),
    ("of the future", lambda: f"Bearer {token_of(iat=NOW + 60)}", 401, 401),
    ("signed with another key", lambda: f"Bearer {token_of(OTHER_KEY)}", 401, 401),
    ("of an unknown key id", lambda: f"Bearer {token_of(kid='k2')}", 401, 401),
    ("without a repository", lambda: f"Bearer {token_of(repository=GONE)}", 401, 401),
    ("with a number for a repository", lambda: f"Bearer {token_of(repository=5)}", 401, 401),
    ("of half a surrogate pair", lambda: f"Bearer {token_of(iss='https://x' + chr(0xD800))}", 401, 401),
    ("with a path for a repository", lambda: f"Bearer {token_of(repository='a/b/c')}", 403, 403),
    (
        "a registered Buildkite pipeline",
        lambda: f"Bearer {token_of(iss=BUILDKITE, organization_slug='spyre', pipeline_slug='nightly')}",
        200,
        200,
    ),
    (
        "an unregistered Buildkite pipeline",
        lambda: f"Bearer {token_of(iss=BUILDKITE, organization_slug='spyre', pipeline_slug='other')}",
        403,
        403,
    ),
    (
        "a Buildkite token without a pipeline",
        lambda: f"Bearer {token_of(iss=BUILDKITE, organization_slug='spyre')}",
        401,
        401,
    ),
    (
        "a Buildkite slug that plays two",
        lambda: f"Bearer {token_of(iss=BUILDKITE, organization_slug='spyre/nightly', pipeline_slug='')}",
        401,
        401,
    ),
    (
        "a Jenkins job that is mapped",
        lambda: f"Bearer {token_of(iss=JENKINS, sub='https://jenkins.example/job/spyre/job/main/')}",
        200,
        200,
    ),
    (
        "a Jenkins job that is not",
        lambda: f"Bearer {token_of(iss=JENKINS, sub='https://jenkins.example/job/other/')}",
        403,
        403,
    ),
]


@pytest.mark.parametrize("row", TOKENS, ids=lambda row: row[0])
def test_each_token(
    world: World, row: tuple[str, Callable[[], str], int, int], payload: dict[str, Any]
) -> None:
    _, header, by_default, as_upstream = row
    value = header()
    headers = {"Authorization": value.encode("latin-1")} if value else {}
    answer = world.client.post(PATH, json=payload, headers=headers)
    assert answer.status_code == (as_upstream if world.mode == "strict" else by_default), answer.text
    assert len(world.rows()) == (1 if answer.status_code == 200 else 0)
    assert value.rpartition(" ")[2][:20] not in answer.text or value in {"", "Bearer "}
    if answer.status_code != 200:
        world.said(answer)
    if answer.status_code == 401 and world.mode == "default":
        assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_an_issuer_that_cannot_be_reached_is_a_503_and_strictly_a_401(
    world: World, payload: dict[str, Any]
) -> None:
    world.reachable = False
    answer = world.post(payload)
    assert answer.status_code == (401 if world.mode == "strict" else 503)
    assert ("retry-after" in answer.headers) == (world.mode == "default")
    world.reachable = True
    world.now += 20
    assert world.post(payload).status_code == 200


LEVELS: list[tuple[str, str | None]] = [
    (REPOSITORY, "L2"),
    ("owner/at-l2", "L2"),
    ("owner/at-l3", "L3"),
    ("owner/at-l4", "L4"),
    ("owner/at-l1", None),
    ("owner/unknown", None),
    ("Torch-Spyre/torch-spyre", None),
]


@pytest.mark.parametrize(("repository", "level"), LEVELS)
def test_each_level_of_the_allow_list(
    world: World, repository: str, level: str | None, payload: dict[str, Any]
) -> None:
    answer = world.post(payload, token=token_of(repository=repository))
    assert answer.status_code == 200
    if level is None:
        assert answer.json()["status"] == "ignored"
        assert set(answer.json()) == (
            {"ok", "status"} if world.mode == "strict" else {"ok", "status", "reason"}
        )
        assert world.rows() == []
    else:
        (row,) = world.rows()
        assert (row["downstream_repo"], row["downstream_repo_level"]) == (repository, level)


@only("default")
def test_a_wrong_letter_case_is_told(world: World, payload: dict[str, Any]) -> None:
    answer = world.post(payload, token=token_of(repository=REPOSITORY.upper()))
    assert f"is written {REPOSITORY} in the allow-list" in answer.json()["reason"]


def test_the_allow_list_comes_before_the_rate_limit_and_the_body(world: World) -> None:
    unknown = token_of(repository="owner/unknown")
    assert {world.post({}, token=unknown).json()["status"] for _ in range(120)} == {"ignored"}


def test_upstream_looks_at_the_json_before_the_token_and_we_after(world: World) -> None:
    answer = world.post(b"{", token="wrong")
    assert answer.status_code == (400 if world.mode == "strict" else 401)


def test_the_rate_limit_comes_before_the_fields(world: World, payload: dict[str, Any]) -> None:
    assert {world.post({}).status_code for _ in range(100)} == {400}
    answer = world.post(payload)
    assert (answer.status_code, world.said(answer)) == (429, f"rate limit exceeded for {REPOSITORY}")
    assert answer.headers.get("retry-after") == (None if world.mode == "strict" else "60")
    assert world.post(payload, token=token_of(repository="owner/at-l2")).status_code == 200


def test_refused_requests_count_and_a_minute_of_silence_ends_it(
    world: World, payload: dict[str, Any]
) -> None:
    for _ in range(100):
        world.post(payload)
    world.now += 59
    assert world.post(payload).status_code == 429
    world.now += 2
    assert world.post(payload).status_code == 200
    world.now += 61
    assert {world.post(payload).status_code for _ in range(100)} == {200}


# --- A: the states of a pull request

BEGIN, END = "in_progress", "completed"
WALKS: list[tuple[str, bool, list[tuple[str, dict[str, Any], int]]]] = [
    ("begins and ends", True, [(BEGIN, {}, 200), (END, {}, 200)]),
    ("was not dispatched", False, [(BEGIN, {}, 400)]),
    ("ends without a beginning", True, [(END, {}, 400), (BEGIN, {}, 200), (END, {}, 200)]),
    ("begins twice", True, [(BEGIN, {}, 200), (BEGIN, {}, 400), (END, {}, 200)]),
    ("ends twice", True, [(BEGIN, {}, 200), (END, {}, 200), (END, {}, 400)]),
    ("begins after its end", True, [(BEGIN, {}, 200), (END, {}, 200), (BEGIN, {}, 400)]),
    (
        "is run again",
        True,
        [
            (BEGIN, {}, 200),
            (END, {}, 200),
            (BEGIN, {"run_attempt": 2, "check_run_id": 2}, 200),
            (END, {"run_attempt": 2, "check_run_id": 2}, 200),
        ],
    ),
    (
        "has two legs of other names",
        True,
        [(BEGIN, {}, 200), (BEGIN, {"job_name": "b", "check_run_id": 2}, 200), (END, {}, 200)],
    ),
    ("has two legs of one name", True, [(BEGIN, {}, 200), (BEGIN, {"check_run_id": 2}, 400)]),
    ("is of another run", True, [(BEGIN, {}, 200), (BEGIN, {"run_id": 5, "check_run_id": 2}, 200)]),
    ("has the reserved run", True, [(BEGIN, {"run_id": 0}, 400)]),
]


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk[0])
def test_each_walk_through_the_states(
    world: World,
    walk: tuple[str, bool, list[tuple[str, dict[str, Any], int]]],
    payload: dict[str, Any],
) -> None:
    _, dispatched, steps = walk
    if dispatched:
        note_dispatched(world.store, delivery_id="d-1", repository=REPOSITORY, at=NOW - 10)
    for status, changes, expected in steps:
        answer = world.post(pull_request(payload, status, **changes))
        assert answer.status_code == expected, answer.text
        if expected == 200:
            assert answer.json() == {"ok": True, "status": status}
        else:
            assert "rejected: " in world.said(answer) or "workflow.run_id" in world.said(answer)


def test_a_refused_step_is_told_as_upstream_tells_it(world: World, payload: dict[str, Any]) -> None:
    assert world.said(world.post(pull_request(payload))) == "callback rejected: no matching dispatch record"
    note_dispatched(world.store, delivery_id="d-1", repository=REPOSITORY, at=NOW - 10)
    assert world.said(world.post(pull_request(payload, "completed"))) == (
        f"callback rejected: invalid state transition delivery_id=d-1 repo={REPOSITORY} status=completed"
    )


@only("strict")
def test_upstream_names_a_status_it_does_not_know(world: World, payload: dict[str, Any]) -> None:
    note_dispatched(world.store, delivery_id="d-1", repository=REPOSITORY, at=NOW)
    answer = world.post(pull_request(payload, "queued"))
    assert answer.json() == {"detail": "unknown callback status: 'queued'"}


def test_states_have_upstreams_keys_and_times_are_measured(world: World, payload: dict[str, Any]) -> None:
    note_dispatched(world.store, delivery_id="d-1", repository=REPOSITORY, at=NOW - 10)
    world.post(pull_request(payload))
    world.now += 90
    world.post(pull_request(payload, "completed"))
    key = f"d-1:{REPOSITORY}:4242:1:{payload['workflow']['job_name']}"
    assert world.states() == {f"d-1:{REPOSITORY}": "DISPATCHED", key: "COMPLETED"}
    (row,) = world.rows()
    assert (row["queue_time"], row["execution_time"]) == (10.0, 90.0)
    assert row["dynamoKey"] == f"{REPOSITORY}/d-1/Nightly/{row['job_name']}/{row['check_run_id']}"


def test_states_last_three_days(world: World, payload: dict[str, Any]) -> None:
    note_dispatched(world.store, delivery_id="d-1", repository=REPOSITORY, at=NOW)
    world.now += 3 * 24 * 3600 + 1
    answer = world.post(pull_request(payload), token=TOKEN)
    assert answer.status_code == 400


def test_a_refusal_of_hud_leaves_the_state_behind_in_strict_mode_alone(
    world: World, payload: dict[str, Any]
) -> None:
    note_dispatched(world.store, delivery_id="d-1", repository=REPOSITORY, at=NOW)
    broken = pull_request(payload, check_run_id=None)
    first = world.post(broken).status_code
    again = world.post(pull_request(payload)).status_code
    assert (first, again) == ((500, 400) if world.mode == "strict" else (400, 200))


def test_a_nightly_twice_changes_nothing(world: World, payload: dict[str, Any]) -> None:
    world.post(payload)
    before = world.rows()
    assert world.post(payload).status_code == 200
    assert world.rows() == before


# --- A: what the store's failures are

FAULTS = [("ci.hud.server.relay.advance", 503), ("ci.store.store.Store.put", 500)]


@only("strict")
@pytest.mark.parametrize(("step", "expected"), FAULTS)
def test_strictly_a_lost_state_is_a_503_and_a_lost_row_a_500(
    world: World, payload: dict[str, Any], monkeypatch: pytest.MonkeyPatch, step: str, expected: int
) -> None:
    note_dispatched(world.store, delivery_id="d-1", repository=REPOSITORY, at=NOW)
    monkeypatch.setattr(step, full)
    assert world.post(pull_request(payload)).status_code == expected
    monkeypatch.undo()
    # After the 503 nothing was kept, so that a retry is taken; after the 500 the state was.
    assert world.post(pull_request(payload)).status_code == (200 if expected == 503 else 400)


@only("default")
def test_by_default_a_failing_store_keeps_neither_state_nor_row(
    world: World, payload: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    note_dispatched(world.store, delivery_id="d-1", repository=REPOSITORY, at=NOW)
    monkeypatch.setattr("ci.store.store.merge", full)
    answer = world.post(pull_request(payload))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
    assert world.said(answer) == "the store failed: database or disk is full"
    monkeypatch.undo()
    assert world.post(pull_request(payload)).status_code == 200


# --- A: six hours of silence

SWEPT: list[tuple[str, str, bool]] = [
    ("pytorch", "completed", True),
    ("shard: one", "completed", False),
    ("7", "completed", False),
]


@pytest.mark.parametrize(("job_name", "by_default", "as_upstream"), SWEPT)
def test_each_job_that_falls_silent(
    world: World, payload: dict[str, Any], job_name: str, by_default: str, as_upstream: bool
) -> None:
    note_dispatched(world.store, delivery_id="d-1", repository=REPOSITORY, at=NOW)
    world.post(pull_request(payload, job_name=job_name, conclusion=None))
    strict = world.mode == "strict"
    assert sweep(world.store, at=NOW + SILENT_S - 1, strict=strict) == 0
    swept = as_upstream if strict else True
    assert sweep(world.store, at=NOW + SILENT_S + 1, strict=strict) == swept
    assert sweep(world.store, at=NOW + SILENT_S + 2, strict=strict) == 0
    (row,) = world.rows()
    assert row["status"] == (by_default if swept else "in_progress")
    assert row["conclusion"] == ("timed_out" if swept else "")
    if swept:
        assert row["execution_time"] == SILENT_S + 1
        assert row["completed_at"].startswith("2026-")


def test_a_job_that_reports_after_its_time_out_is_still_heard_by_default(
    world: World, payload: dict[str, Any]
) -> None:
    note_dispatched(world.store, delivery_id="d-1", repository=REPOSITORY, at=NOW)
    world.post(pull_request(payload))
    world.now += SILENT_S + 60
    assert sweep(world.store, at=world.now, strict=world.mode == "strict") == 1
    answer = world.post(pull_request(payload, "completed", conclusion="success"), token=TOKEN)
    (row,) = world.rows()
    expected = (400, "timed_out") if world.mode == "strict" else (200, "success")
    assert (answer.status_code, row["conclusion"]) == expected


# --- B: the ingest. (key, value, default's answer, strict's answer)


def relayed(payload: dict[str, Any], **metrics: Any) -> dict[str, Any]:
    trusted = {"verified_repo": REPOSITORY, "downstream_repo_level": "L3", "ci_metrics": metrics}
    return {"trusted": trusted, "untrusted": {"callback_payload": payload}}


INGEST: list[tuple[str, Any, int, int]] = [
    ("trusted", GONE, 400, 500),
    ("trusted", [], 400, 500),
    ("trusted.verified_repo", GONE, 400, 500),
    ("trusted.verified_repo", "no slash", 400, 500),
    ("trusted.downstream_repo_level", "L4", 200, 200),
    ("trusted.downstream_repo_level", None, 200, 200),
    ("trusted.downstream_repo_level", GONE, 200, 200),
    ("trusted.downstream_repo_level", "L9", 400, 200),
    ("trusted.ci_metrics", GONE, 200, 200),
    ("trusted.ci_metrics", {"queue_time": None, "execution_time": None}, 200, 200),
    ("trusted.ci_metrics", {"queue_time": 1.5, "execution_time": 2}, 200, 200),
    ("trusted.ci_metrics", {"queue_time": -1}, 400, 200),
    ("trusted.ci_metrics", {"queue_time": "soon"}, 400, 200),
    ("trusted.ci_metrics", "soon", 400, 200),
    ("untrusted", GONE, 400, 500),
    ("untrusted.callback_payload", GONE, 400, 500),
    ("untrusted.callback_payload", None, 400, 500),
    ("untrusted.callback_payload.workflow", GONE, 400, 500),
    ("untrusted.callback_payload.workflow.job_name", GONE, 400, 400),
    ("untrusted.callback_payload.workflow.job_name", "", 400, 400),
    ("untrusted.callback_payload.workflow.check_run_id", GONE, 400, 400),
    ("untrusted.callback_payload.workflow.check_run_id", None, 400, 400),
    ("untrusted.callback_payload.workflow.run_id", "uuid", 400, 200),
    ("untrusted.callback_payload.workflow.status", "in_progress", 200, 200),
    ("untrusted.callback_payload.workflow.test_results", {"passed": -1}, 400, 200),
    ("untrusted.callback_payload.event_type", "pull_request", 200, 200),
]


@pytest.mark.parametrize("row", INGEST, ids=lambda row: f"{row[0]} {'missing' if row[1] is GONE else row[1]}")
def test_each_field_of_a_relayed_result(
    world: World, row: tuple[str, Any, int, int], payload: dict[str, Any]
) -> None:
    key, value, by_default, as_upstream = row
    answer = world.ingest(bent(relayed(payload), key, value))
    expected = as_upstream if world.mode == "strict" else by_default
    assert answer.status_code == expected, answer.text
    if expected == 200:
        (kept,) = world.rows()
        status = answer.json()["status"]
        assert answer.json() == {"ok": True, "status": status, "dynamoKey": kept["dynamoKey"]}
        assert status == kept["status"]
    else:
        assert set(answer.json()) == {"error"}
        assert world.rows() == []


@pytest.mark.parametrize("bot", ["", "wrong", f"{BOT}x", TOKEN, "k\xe4se"])
def test_without_the_relays_header_nothing_is_written(
    world: World, bot: str, payload: dict[str, Any]
) -> None:
    headers = {"x-hud-internal-bot": bot.encode("latin-1"), "Authorization": f"Bearer {TOKEN}".encode()}
    answer = world.client.post(RESULTS, content=json.dumps(relayed(payload)), headers=headers)
    assert (answer.status_code, answer.json()) == (401, {"error": "Unauthorized"})
    assert world.rows() == []


def test_where_no_relay_is_set_nobody_is_one(world: World, payload: dict[str, Any]) -> None:
    client = world.client_of(replace(world.gate, ingest_token=""))
    answer = client.post(RESULTS, json=relayed(payload), headers={"x-hud-internal-bot": ""})
    assert answer.status_code == 401


def test_a_relayed_result_of_more_than_two_megabytes_is_a_413(world: World, payload: dict[str, Any]) -> None:
    answer = world.ingest(relayed({**payload, "filler": "x" * MAX_BYTES}))
    assert (answer.status_code, set(answer.json())) == (413, {"error"})


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"\xff"])
def test_a_relayed_result_that_is_no_json_is_a_400(world: World, body: bytes) -> None:
    assert world.ingest(body).status_code == 400


def test_a_write_merges_what_it_defines(world: World, payload: dict[str, Any]) -> None:
    begun = bent(payload, "workflow.status", "in_progress")
    world.ingest(relayed(begun, queue_time=12.5, execution_time=None))
    ended = bent(bent(payload, "workflow.started_at", GONE), "workflow.artifact_url", "https://a.example/1")
    world.ingest(relayed(ended, queue_time=None, execution_time=30))
    (row,) = world.rows()
    assert (row["status"], row["queue_time"], row["execution_time"]) == ("completed", 12.5, 30.0)
    assert row["started_at"] == "2026-08-01T02:00:00.000000Z"
    assert (row["downstream_repo_level"], row["artifact_url"]) == ("L3", "https://a.example/1")


def test_a_store_that_fails_under_a_relayed_result_is_a_500(
    world: World, payload: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.store, "put", full)
    answer = world.ingest(relayed(payload))
    assert (answer.status_code, set(answer.json())) == (500, {"error"})


# --- dispatches and uploads, which upstream has elsewhere


def test_a_reporter_cannot_vouch_for_its_own_dispatch(world: World) -> None:
    for token, status in ((token_of(), 403), (TOKEN, 200)):
        headers = {"Authorization": f"Bearer {token}"}
        answer = world.client.post("/api/dispatch", json={"delivery_id": "d-1"}, headers=headers)
        assert answer.status_code == status
    other = {"delivery_id": "d-1", "repository": "owner/at-l1"}
    answer = world.client.post("/api/dispatch", json=other, headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 403
    assert set(world.states()) == {f"d-1:{REPOSITORY}"}


def test_an_upload_of_a_repository_that_is_not_heard_is_refused(
    world: World, payload: dict[str, Any]
) -> None:
    world.post(payload)
    (row,) = world.rows()
    query = f"workflow_id={row['run_id']}&workflow_run_attempt=1&job_id={row['job_id']}&name=all"
    for repository, status in (("owner/unknown", 403), ("owner/at-l2", 404), (REPOSITORY, 200)):
        headers = {"Authorization": f"Bearer {token_of(repository=repository)}"}
        answer = world.client.post(f"/api/upload/test_run?{query}", content=b"", headers=headers)
        assert answer.status_code == status, answer.text
