"""The contract, replayed row by row against the server; fields not named are those of a good report."""

from __future__ import annotations

import asyncio
import copy
import json
import sqlite3
import time
from collections.abc import Iterator
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
from ci.hud.server.auth import Auth, RateLimit
from ci.hud.server.issuers import Issuers, Keys
from ci.hud.server.queries.jobs import list_jobs
from ci.hud.server.states import SILENT_S, note_dispatched, sweep
from ci.store.row_store import SqliteRowStore
from ci.store.store import Store

from .conftest import empty

NOW = 1_785_000_000.0
TOKEN = "the-servers-own-token"
BOT = "the-relays-own-token-of-32-characters"
REPOSITORY = "torch-spyre/torch-spyre"
GITHUB = "https://token.actions.githubusercontent.com"
PATH = "/github/callback"
RESULTS = "/api/crcr/results"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
LISTED = f"""
L1: [owner/at-l1]
L2: [{REPOSITORY}, owner/at-l2]
L3: {{spyre: {{owner/at-l3: [someone]}}}}
L4: [{{owner/at-l4: someone}}]
"""
GONE = object()


def token_of(**claims: Any) -> str:
    now = time.time()
    said = {"iss": GITHUB, "aud": "pytorch-cross-repo-ci-relay", "exp": now + 300, "repository": REPOSITORY}
    return jwt.encode({**said, **claims}, KEY, algorithm="RS256", headers={"kid": "k1"})


class World:
    """A server, its store, and time that the test moves; requests come without a socket between."""

    def __init__(self, folder: Path) -> None:
        self.now = NOW
        self.path = folder / "hud.sqlite"
        self.store = Store(self.path)
        listed = folder / "allow-list.yaml"
        listed.write_text(LISTED)
        self.auth = Auth(
            token=TOKEN,
            repository=REPOSITORY,
            allow_list=AllowList(listed),
            limit=RateLimit(100, self.clock),
            issuers=Issuers([Issuer(url=GITHUB, kind="github")]),
            ingest_token=BOT,
        )
        self.app = self.app_of(self.auth)

    def app_of(self, auth: Auth) -> FastAPI:
        return create_app(self.store, SqliteRowStore(self.store.transaction), auth, self.clock)

    def begin_anew(self) -> None:
        """As if nothing had been sent: the application stays, which takes long to make."""
        # The limit of requests a minute is of a minute that is over.
        self.now = max(self.now, NOW) + 100
        empty(self.store)

    def clock(self) -> float:
        return self.now

    def request(self, method: str, path: str, app: FastAPI | None = None, **options: Any) -> Response:
        async def exchange() -> Response:
            transport = ASGITransport(app or self.app, raise_app_exceptions=False)
            async with AsyncClient(transport=transport, base_url="http://hud") as client:
                return await client.request(method, path, **options)

        return asyncio.run(exchange())

    def post(self, content: Any, *, token: str = TOKEN, path: str = PATH) -> Response:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return self.request("POST", path, content=body, headers={"Authorization": f"Bearer {token}"})

    def ingest(self, content: Any) -> Response:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return self.request("POST", RESULTS, content=body, headers={"x-hud-internal-bot": BOT})

    def dispatch(self) -> None:
        note_dispatched(self.store, delivery_id="d-1", repository=REPOSITORY, at=self.now - 10)

    def rows(self) -> list[dict[str, Any]]:
        return list_jobs(self.store.database, limit=1000)

    def states(self) -> dict[str, str]:
        with closing(sqlite3.connect(self.path)) as connection:
            return dict(connection.execute("SELECT key, state FROM callback_state"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("contract"))
    yield world
    world.store.close()


@pytest.fixture
def world(shared: World, monkeypatch: pytest.MonkeyPatch) -> World:
    key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
    keys = json.dumps({"keys": [{**key, "kid": "k1"}]}).encode()
    monkeypatch.setattr(Keys, "_read", lambda _: keys)
    shared.begin_anew()
    return shared


def said(answer: Response) -> str:
    """The reason of the relay's refusal."""
    content = answer.json()
    assert set(content) == {"detail"}, content
    return str(content["detail"])


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


# --- A: the fields

TAKEN: dict[str, list[Any]] = {
    "event_type": ["nightly", "periodic"],
    "delivery_id": ["any text", "", None],
    "payload": [
        GONE, {}, {"anything": {"else": [1, None]}}, {"repository": {"full_name": "pytorch/vision"}},
        {"pull_request": {"number": 12, "head": {"sha": "b" * 40}}}, {"pull_request": {"number": "x"}},
        [], "text",
    ],
    "workflow.run_id": [99, "99", 99.0, 0, -1, True, 99.5, 10**30],
    "workflow.run_attempt": [3, "3", GONE, 0],
    "workflow.name": ["", 5],
    "workflow.job_name": ["with: colon", "\ud800", ["a", "list"]],
    "workflow.check_run_id": [123456, "text too", {}],
    "workflow.conclusion": ["success", "timed_out", None, GONE, "anything", 3],
    "workflow.started_at": [
        "2026-08-01T02:00:00Z", "2026-08-01T02:00:00.123456+02:00", GONE, "yesterday", 1785000000,
        [], "\ud800",
        "1970-01-01T00:00:00+14:00", "0001-01-01T00:00:00+23:59", "2300-01-01T00:00:00Z",
    ],
    "workflow.completed_at": ["2026-13-01T00:00:00Z", "2261-12-31T23:59:59-23:59", "2026-08-01T01:00:00Z"],
    "workflow.test_results": [
        {"passed": 1, "failed": 2, "skipped": 3, "total": 6}, {}, None, {"passed": "5"}, {"passed": 2**70},
        "many",
    ],
    "workflow.artifact_url": ["anything at all", 5],
    "workflow.url": ["javascript:alert(1)", []],
    "workflow.schema_version": ["1", GONE],
}  # fmt: skip
MISSING = "callback body missing required field"
NOT_DISPATCHED = "callback rejected: no matching dispatch record"
NOT_ENDED = "nightly/periodic callbacks must have status 'completed'"
HUD = "HUD rejected callback: HTTP 400: Missing required field: "
REFUSED: list[tuple[str, list[Any], int, str]] = [
    ("event_type", ["pull_request", "", GONE, 7, ["nightly"]], 400, NOT_DISPATCHED),
    ("delivery_id", [GONE], 400, MISSING),
    ("workflow", [GONE, "text", [], None], 400, MISSING),
    ("workflow.status", [GONE], 400, MISSING),
    ("workflow.status", ["in_progress", "queued", None, {}], 400, NOT_ENDED),
    ("workflow.run_id", [GONE, None, []], 400, MISSING),
    ("workflow.run_id", ["5c0ffee0-uuid", ""], 500, "Internal server error"),
    ("workflow.run_attempt", [None], 400, MISSING),
    ("workflow.run_attempt", ["third"], 500, "Internal server error"),
    ("workflow.name", [GONE], 400, MISSING),
    ("workflow.job_name", [GONE, "", None], 400, f"{HUD}workflow.job_name"),
    ("workflow.check_run_id", [GONE, None], 400, f"{HUD}workflow.check_run_id"),
]


@pytest.mark.parametrize("key", TAKEN)
def test_each_field_that_is_taken(world: World, key: str, payload: dict[str, Any]) -> None:
    for number, value in enumerate(TAKEN[key], start=1):
        answer = world.post(bent(bent(payload, "workflow.name", f"w{number}"), key, value))
        assert (answer.status_code, answer.json()) == (200, {"ok": True, "status": "completed"}), value
        assert len(world.rows()) == number


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: f"{row[0]} {row[3]}")
def test_each_field_that_is_refused(
    world: World, row: tuple[str, list[Any], int, str], payload: dict[str, Any]
) -> None:
    key, values, status, reason = row
    for value in values:
        answer = world.post(bent(payload, key, value))
        assert answer.status_code == status, value
        assert said(answer).startswith(reason)
    assert world.rows() == []


@pytest.mark.parametrize(
    ("results", "columns"),
    [
        ({"passed": 1, "failed": 2, "skipped": 3}, (1, 2, 3, 6)),
        ({"passed": -1, "failed": 2}, (0, 2, 0, 2)),
        ({"passed": 0.5, "failed": 2, "total": 3}, (0, 2, 0, 3)),
        ({"passed": "5", "skipped": 1}, (0, 0, 1, 1)),
        ({"passed": 1, "total": 5}, (1, 0, 0, 5)),
    ],
)
def test_a_row_is_kept_without_the_counts_no_column_can_hold(
    world: World, payload: dict[str, Any], results: dict[str, Any], columns: tuple[int, ...]
) -> None:
    assert world.post(bent(payload, "workflow.test_results", results)).status_code == 200
    (row,) = world.rows()
    assert tuple(row[f"{name}_tests"] for name in ("passed", "failed", "skipped", "total")) == columns


COLUMNS = """
    dynamoKey status downstream_repo upstream_repo pr_number pytorch_head_sha delivery_id workflow_run_url
    workflow_name job_name check_run_id run_id run_attempt conclusion queue_time execution_time started_at
    completed_at total_tests passed_tests failed_tests skipped_tests failed_tests_json artifact_url
    environment downstream_repo_level event_type repository_full_name duration_seconds
"""


@pytest.mark.parametrize("attempt", [2**32, 2**40 + 1, "4294967297", 10**30])
def test_an_attempt_that_no_column_can_hold_is_the_first(
    world: World, payload: dict[str, Any], attempt: Any
) -> None:
    # ClickHouse's column would take another number for it, which could be a re-run's.
    assert world.post(bent(payload, "workflow.run_attempt", attempt)).status_code == 200
    assert world.rows()[0]["run_attempt"] == 1


def test_a_nightly_is_a_row_with_the_contracts_columns(world: World, payload: dict[str, Any]) -> None:
    world.post(payload)
    (row,) = world.rows()
    assert set(COLUMNS.split()) <= set(row)
    workflow = payload["workflow"]
    named = f"{workflow['name']}/{workflow['job_name']}/{workflow['check_run_id']}"
    expected = {
        "dynamoKey": f"{REPOSITORY}/{payload['delivery_id']}/{named}", "status": "completed",
        "conclusion": "failure", "event_type": "nightly", "started_at": "2026-08-01T02:00:00.000000Z",
        "duration_seconds": 185.0, "repository_full_name": REPOSITORY, "upstream_repo": "pytorch/pytorch",
        "queue_time": None,
    }  # fmt: skip
    assert expected.items() <= row.items()


def test_rows_come_newest_first_and_in_pages_and_none_for_a_time_that_is_none(
    world: World, payload: dict[str, Any]
) -> None:
    for number, start in enumerate(("02:00:00Z", "03:00:00Z", "x"), start=1):
        report = bent(payload, "workflow.started_at", f"2026-08-01T{start}")
        world.post(bent(bent(report, "workflow.run_id", number), "workflow.check_run_id", number))
    pages = [world.request("GET", f"/api/runs?limit=2&offset={offset}").json() for offset in (0, 2)]
    assert [[row["run_id"] for row in page["runs"]] for page in pages] == [["2", "1"], ["3"]]
    assert [page["total"] for page in pages] == [3, 3]
    assert pages[1]["runs"][0]["started_at"] == ""


# --- A: the request itself, before any field

BODIES = {
    "nothing": b"",
    "half an object": b"{",
    "no UTF-8": b"{\xff}",
    "a number of 5,000 digits": b"9" * 5000,
    "100,000 lists in each other": b"[" * 100_000,
    "NaN": b'{"delivery_id": NaN}',
    "a list": b"[]",
    "null": b"null",
    "text": b'"x"',
    "a number": b"5",
}


@pytest.mark.parametrize("name", BODIES)
def test_each_body_that_is_no_callback(world: World, name: str) -> None:
    answer = world.post(BODIES[name])
    assert answer.status_code == 400
    assert said(answer).startswith(("Invalid JSON body", MISSING))
    assert world.post(BODIES[name], path=RESULTS).status_code == 401
    assert (world.ingest(BODIES[name]).status_code, world.rows()) == (400, [])


@pytest.mark.parametrize("path", [PATH, RESULTS])
def test_another_path_is_a_404_and_another_method_a_405(
    world: World, path: str, payload: dict[str, Any]
) -> None:
    for other in (f"{path}/", f"{path}/x", path.title(), path.rpartition("/")[0]):
        assert world.post(payload, path=other).status_code == 404, other
    for method in ("GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"):
        answer = world.request(method, path, headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 405, method
    assert world.rows() == []


def test_more_than_two_megabytes_is_a_413(world: World, payload: dict[str, Any]) -> None:
    assert world.post({**payload, "filler": "x" * MAX_BYTES}).status_code == 413
    room = MAX_BYTES - len(json.dumps({**payload, "filler": ""}))
    assert world.post({**payload, "filler": "x" * room}).status_code == 200
    answer = world.ingest(relayed({**payload, "filler": "x" * MAX_BYTES}))
    assert (answer.status_code, set(answer.json())) == (413, {"error"})


# --- A: who; each claim of a token is in tests/unit/hud/server/test_issuers.py

TOKENS = {
    "the server's own token": (f"Bearer {TOKEN}", 200),
    "a GitHub token": (f"Bearer {token_of()}", 200),
    "bearer in another case": (f"bEaReR {token_of()}", 200),
    "without the word Bearer": (token_of(), 401),
    "nothing": ("", 401),
    "Bearer alone": ("Bearer ", 401),
    "the server's own token and more": (f"Bearer {TOKEN}x", 401),
    "a letter that is not ASCII": ("Bearer k\xe4se", 401),
    "no JWT": ("Bearer abc", 401),
    "Basic": (f"Basic {TOKEN}", 401),
    "an expired token": (f"Bearer {token_of(exp=1)}", 401),
    "another audience": (f"Bearer {token_of(aud='sts.amazonaws.com')}", 401),
    "another issuer": (f"Bearer {token_of(iss='https://evil.example')}", 401),
    "a path for a repository": (f"Bearer {token_of(repository='a/b/c')}", 403),
}


@pytest.mark.parametrize("name", TOKENS)
def test_each_token(world: World, name: str, payload: dict[str, Any]) -> None:
    value, status = TOKENS[name]
    headers = {"Authorization": value.encode("latin-1")} if value else {}
    answer = world.request("POST", PATH, json=payload, headers=headers)
    assert answer.status_code == status, answer.text
    assert len(world.rows()) == (status == 200)
    assert status == 200 or said(answer)
    assert value in {"", "Bearer "} or value.rpartition(" ")[2][:20] not in answer.text
    assert status != 401 or answer.headers["WWW-Authenticate"] == "Bearer"


def test_an_issuer_that_cannot_be_reached_is_a_503(
    world: World, payload: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: Keys) -> bytes:
        raise OSError

    monkeypatch.setattr(Keys, "_read", away)
    auth = replace(world.auth, issuers=Issuers([Issuer(url=GITHUB, kind="github")]))
    headers = {"Authorization": f"Bearer {token_of()}"}
    answer = world.request("POST", PATH, world.app_of(auth), json=payload, headers=headers)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "11")


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
        assert (answer.json(), world.rows()) == ({"ok": True, "status": "ignored"}, [])
    else:
        (row,) = world.rows()
        assert (row["downstream_repo"], row["downstream_repo_level"]) == (repository, level)


def test_each_refusal_in_its_order(world: World, payload: dict[str, Any]) -> None:
    """The window of the limit is in tests/unit/hud/server/test_auth.py."""
    unknown = token_of(repository="owner/unknown")
    assert world.post(b"{", token="wrong").status_code == 400
    assert world.post({}, token="wrong").status_code == 401
    # Neither a wrong token nor one that is not heard counts; what is refused for its fields does.
    assert {world.post({}, token=unknown).json()["status"] for _ in range(120)} == {"ignored"}
    assert {world.post({}).status_code for _ in range(100)} == {400}
    answer = world.post(payload)
    assert (answer.status_code, said(answer)) == (429, f"rate limit exceeded for {REPOSITORY}")
    assert "retry-after" not in answer.headers
    assert world.post(payload, token=token_of(repository="owner/at-l2")).status_code == 200


# --- A: the states of a pull request

BEGIN, END = "in_progress", "completed"
AGAIN: dict[str, Any] = {"run_attempt": 2, "check_run_id": 2}


def test_each_step_that_is_refused_says_why(world: World, payload: dict[str, Any]) -> None:
    """Walks through the states are in tests/oracle/test_hud.py."""
    world.dispatch()
    assert world.post(pull_request(payload)).status_code == 200
    assert world.post(pull_request(payload, run_id=5, check_run_id=2)).status_code == 200
    refused: list[dict[str, Any]] = [{}, {"check_run_id": 3}, {"run_id": 0}]
    for changes in refused:
        answer = world.post(pull_request(payload, **changes))
        assert (answer.status_code, said(answer)) == (
            400,
            f"callback rejected: invalid state transition delivery_id=d-1 repo={REPOSITORY} status={BEGIN}",
        )
    assert (len(world.rows()), set(world.states().values())) == (2, {"DISPATCHED", "IN_PROGRESS"})
    answer = world.post(pull_request(payload, "queued"))
    assert (answer.status_code, said(answer)) == (400, "unknown callback status: 'queued'")


def test_states_have_upstreams_keys_and_times_are_measured(world: World, payload: dict[str, Any]) -> None:
    world.dispatch()
    world.post(pull_request(payload))
    world.now += 90
    world.post(pull_request(payload, "completed"))
    key = f"d-1:{REPOSITORY}:4242:1:{payload['workflow']['job_name']}"
    assert world.states() == {f"d-1:{REPOSITORY}": "DISPATCHED", key: "COMPLETED"}
    (row,) = world.rows()
    assert (row["queue_time"], row["execution_time"]) == (10.0, 90.0)
    assert row["dynamoKey"] == f"{REPOSITORY}/d-1/Nightly/{row['job_name']}/{row['check_run_id']}"


def test_a_run_again_has_no_queue_time(world: World, payload: dict[str, Any]) -> None:
    world.dispatch()
    assert world.post(pull_request(payload, **AGAIN)).status_code == 200
    assert [row["queue_time"] for row in world.rows()] == [None]


def test_a_second_dispatch_changes_nothing_and_an_event_without_a_type_is_a_pull_requests(
    world: World, payload: dict[str, Any]
) -> None:
    world.dispatch()
    world.now += 1000
    world.dispatch()
    assert world.post({**pull_request(payload), "event_type": ""}).status_code == 200
    assert [(row["queue_time"], row["event_type"]) for row in world.rows()] == [(1010, "pull_request")]


def test_states_last_three_days(world: World, payload: dict[str, Any]) -> None:
    world.dispatch()
    world.now += 3 * 24 * 3600 + 1
    assert said(world.post(pull_request(payload))) == NOT_DISPATCHED


def test_a_refusal_of_hud_comes_after_the_state_is_kept(world: World, payload: dict[str, Any]) -> None:
    world.dispatch()
    assert said(world.post(pull_request(payload, job_name=""))) == f"{HUD}workflow.job_name"
    assert world.states()[f"d-1:{REPOSITORY}:4242:1"] == "IN_PROGRESS"
    assert said(world.post(pull_request(payload, check_run_id=None))) == f"{HUD}workflow.check_run_id"
    assert "invalid state transition" in said(world.post(pull_request(payload)))
    assert world.rows() == []


def test_a_failing_store_is_a_503_and_keeps_neither_state_nor_row(
    world: World, payload: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.dispatch()
    monkeypatch.setattr("ci.store.store.merge", full)
    for answer, key in (
        (world.post(pull_request(payload)), "detail"),
        (world.ingest(relayed(payload)), "error"),
    ):
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
        assert answer.json() == {key: "the store failed: database or disk is full"}
    monkeypatch.undo()
    assert world.post(pull_request(payload)).status_code == 200


# --- A: six hours of silence


@pytest.mark.parametrize("job_name", ["pytorch", "shard: one", "7"])
def test_each_job_that_falls_silent_is_timed_out_and_its_own_word_is_still_taken(
    world: World, payload: dict[str, Any], job_name: str
) -> None:
    world.dispatch()
    world.post(pull_request(payload, job_name=job_name, conclusion=None))
    assert sweep(world.store, at=world.now + SILENT_S - 1) == 0
    world.now += SILENT_S + 1
    assert sweep(world.store, at=world.now) == 1
    assert sweep(world.store, at=world.now + 1) == 0
    (row,) = world.rows()
    assert (row["status"], row["conclusion"], row["execution_time"]) == (END, "timed_out", SILENT_S + 1)
    assert row["completed_at"].startswith("2026-")
    late = pull_request(payload, END, job_name=job_name, conclusion="success")
    assert world.post(late).status_code == 200
    assert [row["conclusion"] for row in world.rows()] == ["success"]


# --- B: the ingest


def relayed(payload: dict[str, Any], **metrics: Any) -> dict[str, Any]:
    trusted = {"verified_repo": REPOSITORY, "downstream_repo_level": "L3", "ci_metrics": metrics}
    return {"trusted": trusted, "untrusted": {"callback_payload": payload}}


REPORT = "untrusted.callback_payload"
INGEST: list[tuple[str, list[Any], int]] = [
    ("trusted", [GONE, [], "text"], 400),
    ("trusted.verified_repo", [GONE, None, 5, "no slash"], 400),
    ("trusted.downstream_repo_level", ["L4", None, GONE, "L9"], 200),
    (
        "trusted.ci_metrics",
        [GONE, {"queue_time": None}, {"queue_time": 1.5}, {"queue_time": "soon"}, "x"],
        200,
    ),
    ("untrusted", [GONE, []], 400),
    (REPORT, [GONE, None, []], 400),
    (f"{REPORT}.workflow", [GONE, []], 400),
    (f"{REPORT}.workflow.job_name", [GONE, ""], 400),
    (f"{REPORT}.workflow.check_run_id", [GONE, None], 400),
    (f"{REPORT}.workflow.run_id", ["uuid"], 200),
    (f"{REPORT}.workflow.status", ["in_progress"], 200),
    (f"{REPORT}.workflow.test_results", [{"passed": -1}], 200),
    (f"{REPORT}.event_type", ["pull_request"], 200),
]


@pytest.mark.parametrize("row", INGEST, ids=lambda row: row[0])
def test_each_field_of_a_relayed_result(
    world: World, row: tuple[str, list[Any], int], payload: dict[str, Any]
) -> None:
    key, values, expected = row
    for value in values:
        answer = world.ingest(bent(relayed(payload), key, value))
        assert answer.status_code == expected, (value, answer.text)
        if expected == 200:
            (kept,) = world.rows()
            assert answer.json() == {"ok": True, "status": kept["status"], "dynamoKey": kept["dynamoKey"]}
        else:
            assert set(answer.json()) == {"error"}
            assert world.rows() == []


@pytest.mark.parametrize("bot", ["", "wrong", f"{BOT}x", TOKEN, "k\xe4se"])
def test_without_the_relays_header_nothing_is_written(
    world: World, bot: str, payload: dict[str, Any]
) -> None:
    headers = {"x-hud-internal-bot": bot.encode("latin-1"), "Authorization": f"Bearer {TOKEN}".encode()}
    closed = world.app_of(replace(world.auth, ingest_token=""))
    for app in (world.app, closed):
        answer = world.request("POST", RESULTS, app, content=json.dumps(relayed(payload)), headers=headers)
        assert (answer.status_code, answer.json()) == (401, {"error": "Unauthorized"})
    assert world.rows() == []


def test_a_write_merges_what_it_defines(world: World, payload: dict[str, Any]) -> None:
    begun = bent(payload, "workflow.status", "in_progress")
    world.ingest(relayed(begun, queue_time=12.5, execution_time=None))
    ended = bent(bent(payload, "workflow.started_at", GONE), "workflow.artifact_url", "https://a.example/1")
    world.ingest(relayed(ended, queue_time=None, execution_time=30))
    (row,) = world.rows()
    assert (row["status"], row["queue_time"], row["execution_time"]) == ("completed", 12.5, 30.0)
    assert row["started_at"] == "2026-08-01T02:00:00.000000Z"
    assert (row["downstream_repo_level"], row["artifact_url"]) == ("L3", "https://a.example/1")


# --- dispatches and uploads, which upstream has elsewhere


def test_a_reporter_cannot_vouch_for_its_own_dispatch(world: World) -> None:
    told = {"delivery_id": "d-1"}
    assert world.post(told, path="/api/dispatch", token=token_of()).status_code == 403
    assert world.post(told, path="/api/dispatch").status_code == 200
    assert world.post({**told, "repository": "owner/at-l1"}, path="/api/dispatch").status_code == 403
    assert set(world.states()) == {f"d-1:{REPOSITORY}"}


def test_an_upload_is_taken_of_a_job_that_its_sender_reported(world: World, payload: dict[str, Any]) -> None:
    world.post(payload)
    (row,) = world.rows()
    own, other = token_of(), token_of(repository="owner/at-l2")
    for run, token, status in (
        (row["run_id"], "", 401), (row["run_id"], token_of(repository="owner/unknown"), 403),
        (row["run_id"], other, 404), (1, own, 404), (row["run_id"], own, 200),
    ):  # fmt: skip
        query = f"workflow_id={run}&workflow_run_attempt=1&job_id={row['job_id']}&name=all"
        answer = world.post(b"", path=f"/api/upload/test_run?{query}", token=token)
        assert answer.status_code == status, answer.text
