"""Surface B, what a relay in front posts: `POST /api/crcr/results`, guarded by its secret header."""

from __future__ import annotations

import json
import re
import sqlite3
from typing import Annotated, Any, Literal

from fastapi import FastAPI, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ci.config.section import REPOSITORY
from ci.hud.callback import Callback, Seconds, explain
from ci.hud.server.document import body_of
from ci.hud.server.gate import Gate, same_secret
from ci.hud.server.http import json_answer, parse_json, read_body
from ci.hud.server.record import MissingFieldError, detail_of, row_of, row_of_body
from ci.store.store import Row, Store

RESULTS_PATH = "/api/crcr/results"
HEADER = "x-hud-internal-bot"
OTHERS = ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"]
MALFORMED = (ValueError, TypeError, AttributeError, OverflowError, KeyError, RecursionError)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")


class Metrics(_Part):
    """What the relay measured, in seconds."""

    queue_time: Seconds | None = None
    execution_time: Seconds | None = None


class Trusted(_Part):
    """What the relay vouches for."""

    verified_repo: Annotated[str, Field(pattern=REPOSITORY, max_length=1024)]
    downstream_repo_level: Literal["L1", "L2", "L3", "L4"] | None = None
    ci_metrics: Metrics = Metrics()


class Untrusted(_Part):
    """What the downstream job says, as it said it to the relay."""

    callback_payload: Callback


class Results(_Part):
    """The body of a post."""

    trusted: Trusted
    untrusted: Untrusted


class ResultsAnswer(BaseModel):
    """The row that was written."""

    ok: bool
    status: str
    dynamoKey: str  # noqa: N815  # HUD's name


ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": ResultsAnswer, "description": "the row is written"},
    400: {"description": "the contract does not hold"},
    401: {"description": "missing or wrong secret"},
    500: {"description": "the store failed"},
}


def add_results(app: FastAPI, store: Store, gate: Gate) -> None:
    """Add `/api/crcr/results`."""
    read = _read_as_upstream if gate.strict else _read

    # Upstream answers 405 before it asks for the secret, and with its own body.
    @app.api_route(RESULTS_PATH, methods=OTHERS, include_in_schema=False)
    def no_such_method() -> JSONResponse:
        return json_answer({"error": "Method not allowed"}, 405, {"Allow": "POST"})

    @app.post(RESULTS_PATH, responses=ANSWERS, openapi_extra=body_of(Results, security="Relay"))
    async def results(request: Request) -> JSONResponse:
        """Take what the Cross-Repository CI Relay hands on, as HUD does."""
        if not same_secret(request.headers.get(HEADER, ""), gate.ingest_token):
            return _said(401, "Unauthorized")
        try:
            row, detail = read(await read_body(request))
            await run_in_threadpool(store.put, row, detail, at=gate.clock())
        except HTTPException as error:
            return _said(error.status_code, error.detail)
        except MissingFieldError as error:
            return _said(400, str(error))
        except sqlite3.OperationalError as error:
            return _said(500, f"the store failed: {error}")
        return json_answer({"ok": True, "status": row["status"], "dynamoKey": row["dynamoKey"]})


def _read(body: bytes) -> tuple[Row, Row | None]:
    content = parse_json(body)
    try:
        results = Results.model_validate(content)
    except ValidationError as error:
        raise HTTPException(400, "; ".join(explain(detail) for detail in error.errors()[:5])) from error
    trusted, callback = results.trusted, results.untrusted.callback_payload
    row = row_of(
        callback,
        repository=trusted.verified_repo,
        metrics=trusted.ci_metrics.model_dump(include={"queue_time", "execution_time"}),
        level=trusted.downstream_repo_level or "",
    )
    return row, detail_of(callback)


def _read_as_upstream(body: bytes) -> tuple[Row, Row | None]:
    try:
        content: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, "Invalid JSON") from error
    try:
        trusted, callback = content["trusted"], content["untrusted"]["callback_payload"]
        repository = trusted["verified_repo"]
        if not isinstance(repository, str) or not re.fullmatch(REPOSITORY, repository):
            raise TypeError("verified_repo")
        return row_of_body(
            callback,
            repository=repository,
            level=str(trusted.get("downstream_repo_level") or ""),
            metrics=trusted.get("ci_metrics"),
        )
    except MALFORMED as error:
        raise HTTPException(500, "Internal error writing to DynamoDB") from error


def _said(status: int, error: str) -> JSONResponse:
    return json_answer({"error": error}, status)
