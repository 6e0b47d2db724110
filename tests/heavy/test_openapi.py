"""What the OpenAPI document allows or forbids, sent to every route of the real server by schemathesis."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from fastapi import FastAPI
from schemathesis.checks import not_a_server_error
from schemathesis.config import GenerationConfig, ProjectConfig, ProjectsConfig, SchemathesisConfig
from schemathesis.specs.openapi.checks import positive_data_acceptance

from ci.hud.server.results import HEADER
from ci.store.database import SqliteDatabase
from ci.store.store import Store
from tests.hud_seed import seed
from tests.hud_server import create_app, embedded

TOKEN = "s3cret-token"
REPOSITORY = "torch-spyre/torch-spyre"
NOW = datetime(2026, 8, 30, 12, tzinfo=UTC)

# What a schema cannot say: a callback has to be a step of its job's states and its times ISO-8601, a file of
# rows has to be whole JUnit or JSON lines. So a 400 to a body the schema allows is no mistake there.
MORE_THAN_A_SCHEMA = {"/github/callback", "/api/crcr/results", "/api/upload/{kind}"}

# Of what h11 takes while a request is incomplete.
LONGEST_LINE = 16 * 1024


def clock() -> float:
    return NOW.timestamp()


def made(path: Path) -> FastAPI:
    return create_app(
        Store(path), token=TOKEN, repository=REPOSITORY, clock=clock, limit=10**9, ingest_token=TOKEN
    )


def load() -> Any:
    # Its operations are what the tests are named by, so it is read before there is a fixture.
    generation = GenerationConfig(max_examples=100, deterministic=True)
    config = SchemathesisConfig(projects=ProjectsConfig(default=ProjectConfig(generation=generation)))
    with tempfile.TemporaryDirectory() as folder:
        return schemathesis.openapi.from_dict(made(Path(folder, "hud.sqlite")).openapi(), config=config)


schema = load()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("hud") / "hud.sqlite"
    seed(path, end=NOW, tests=300, days=20)
    with embedded(made(path)) as base:
        yield base


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as one:
        yield one


def check_answers(case: schemathesis.Case[Any], url: str, session: requests.Session) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", HEADER: TOKEN}
    unsaid: list[Any] = [positive_data_acceptance] if case.operation.path in MORE_THAN_A_SCHEMA else []
    answer = case.call(base_url=url, session=session, headers=headers)
    if answer.text == "Invalid HTTP request received.":
        # A line this long may be refused before any route has seen it, by how it comes in.
        assert len(answer.request.url or "") > LONGEST_LINE
        return
    if answer.status_code == 500 and case.operation.path == "/github/callback":
        # The contract's own: upstream's relay answers so to a run's number that is none, and to nothing else.
        workflow = json.loads(answer.request.body or b"{}")["workflow"]
        assert not all(is_whole(workflow.get(name, 1)) for name in ("run_id", "run_attempt"))
        unsaid.append(not_a_server_error)
    case.validate_response(answer, headers=headers, excluded_checks=unsaid)


def is_whole(value: Any) -> bool:
    try:
        int(value)
    except (ValueError, OverflowError):
        return False
    return True


# A function an operation: schemathesis' own names do not reach pytest 9.2, to which all would be one test.
for _label in sorted(one.ok().label for one in schema.get_all_operations()):
    _name = re.sub(r"\W+", "_", _label).strip("_").lower()
    globals()[f"test_every_answer_is_as_the_document_says_{_name}"] = schema.include(
        name=_label
    ).parametrize()(check_answers)


@pytest.mark.parametrize("path", ["/api/runs", "/runs", "/healthz", "/github/callback", "/api/upload/junit"])
def test_no_handler_hides_a_mistake_of_ours(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    app = made(tmp_path / "hud.sqlite")
    for owner, name in ((Store, "transaction"), (SqliteDatabase, "rows")):
        monkeypatch.setattr(owner, name, broken)
    query: dict[str, str | int] = {"workflow_id": 1, "workflow_run_attempt": 1, "job_id": 1, "name": "1.xml"}
    workflow = {"status": "completed", "name": "n", "job_name": "j", "check_run_id": 1, "run_id": 1}
    callback = {"event_type": "nightly", "delivery_id": "d", "workflow": workflow}
    with embedded(app) as url:
        method = "GET" if path in {"/api/runs", "/runs", "/healthz"} else "POST"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = requests.request(
            method, url + path, params=query, json=callback, headers=headers, timeout=20
        )
    assert answer.status_code == 500
    assert "ZeroDivisionError" not in answer.text
