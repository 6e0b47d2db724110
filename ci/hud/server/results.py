"""Surface B, what a relay in front posts: `POST /api/crcr/results`, guarded by its secret header."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from fastapi.security import APIKeyHeader
from pydantic import BaseModel

from ci.config.section import REPOSITORY
from ci.hud.server.auth import Auth, same_secret
from ci.hud.server.http import RESULTS_PATH, json_answer, json_body, parse_json, read_body
from ci.hud.server.record import row_of
from ci.store.store import Row, Store

HEADER = "x-hud-internal-bot"
Secret = Annotated[str | None, Depends(APIKeyHeader(name=HEADER, auto_error=False))]
TRUSTED = {
    "type": "object",
    "required": ["verified_repo"],
    "properties": {"verified_repo": {"type": "string", "pattern": REPOSITORY}},
}
WORKFLOW: dict[str, Any] = {"type": "object", "required": ["job_name", "check_run_id"]}
PAYLOAD = {"type": "object", "required": ["workflow"], "properties": {"workflow": WORKFLOW}}
UNTRUSTED = {"type": "object", "required": ["callback_payload"], "properties": {"callback_payload": PAYLOAD}}
RESULTS = {
    "type": "object",
    "required": ["trusted", "untrusted"],
    "properties": {"trusted": TRUSTED, "untrusted": UNTRUSTED},
}


class ResultsAnswer(BaseModel):
    """The row that was written."""

    ok: bool
    status: str
    dynamoKey: str  # noqa: N815  # HUD's name


def add_results(app: FastAPI, store: Store, auth: Auth, clock: Callable[[], float]) -> None:
    """Add `/api/crcr/results`."""

    @app.post(RESULTS_PATH, response_model=ResultsAnswer, openapi_extra=json_body(RESULTS))
    async def results(request: Request, secret: Secret) -> JSONResponse:
        """Take what the Cross-Repository CI Relay hands on, as HUD does."""
        if not same_secret(secret or "", auth.ingest_token):
            raise HTTPException(401, "Unauthorized")
        row, detail = _row(parse_json(await read_body(request)))
        await run_in_threadpool(store.put, row, detail, at=clock())
        return json_answer({"ok": True, "status": row["status"], "dynamoKey": row["dynamoKey"]})


def _row(content: Any) -> tuple[Row, Row | None]:
    try:
        trusted, callback = content["trusted"], content["untrusted"]["callback_payload"]
        repository = trusted["verified_repo"]
        if not re.fullmatch(REPOSITORY, repository):
            raise HTTPException(400, "trusted.verified_repo is not owner/name")
        level = str(trusted.get("downstream_repo_level") or "")
        return row_of(callback, repository=repository, level=level, metrics=trusted.get("ci_metrics"))
    except (KeyError, TypeError) as error:
        raise HTTPException(400, f"Missing required field: {error}") from error
