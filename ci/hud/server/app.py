"""The HUD-compatible server's routes: the relay's callback, the read API and the pages."""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import ValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException

from ci.hud.callback import MAX_BYTES, Callback, explain
from ci.hud.client import CALLBACK_PATH
from ci.hud.server.pages import add_pages
from ci.hud.server.proof import SERVER_NAME, proof_of_token
from ci.hud.server.read_api import add_read_api
from ci.hud.server.store import CallbackRefusedError, Store

HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}

Nonce = Annotated[str, Query(max_length=128)]
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]


def create_app(store: Store, *, token: str, repository: str, clock: Callable[[], float]) -> FastAPI:
    """The server.

    Args:
        store: keeps what comes.
        token: the write token.
        repository: owner/name the token vouches for; the body's word is never taken for it.
        clock: seconds since the epoch.
    """
    # The interactive docs load scripts from elsewhere; the OpenAPI document itself stays.
    app = FastAPI(title="spyre-ci HUD", docs_url=None, redoc_url=None, redirect_slashes=False)
    _add_error_answers(app)
    _add_callback(app, store, token, repository, clock)
    _add_health(app, store, token)
    add_read_api(app, store, clock)
    add_pages(app, store, clock)
    _describe_callback(app)
    return app


def _add_callback(
    app: FastAPI, store: Store, token: str, repository: str, clock: Callable[[], float]
) -> None:
    @app.post(CALLBACK_PATH, responses=_callback_answers(), openapi_extra=_callback_body())
    async def callback(request: Request, credentials: Credentials) -> JSONResponse:
        """Take a job's report, as the Cross-Repository CI Relay does."""
        given = credentials.credentials if credentials is not None else ""
        if not secrets.compare_digest(given.encode("utf-8", "replace"), token.encode()):
            raise HTTPException(401, "missing or wrong bearer token", {"WWW-Authenticate": "Bearer"})
        report = _parse(await _read_body(request))
        try:
            await run_in_threadpool(store.record, report, repository=repository, at=clock())
        except CallbackRefusedError as error:
            raise HTTPException(400, str(error)) from error
        return _json({"ok": True, "status": report.workflow.status})


def _add_health(app: FastAPI, store: Store, token: str) -> None:
    @app.get("/healthz")
    def health(nonce: Nonce = "") -> JSONResponse:
        """Whether the server and its store work; with a nonce, proof that it knows the write token."""
        told = {"ok": True, "server": SERVER_NAME, "runs": store.count_jobs()}
        return _json({**told, "proof": proof_of_token(token, nonce)} if nonce else told)


async def _read_body(request: Request) -> bytes:
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told) > MAX_BYTES:
        raise HTTPException(413, f"the body is larger than {MAX_BYTES} bytes")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BYTES:
            raise HTTPException(413, f"the body is larger than {MAX_BYTES} bytes")
    return bytes(body)


def _parse(body: bytes) -> Callback:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, "the body is no JSON") from error
    try:
        return Callback.model_validate(content)
    except ValidationError as error:
        raise HTTPException(400, "; ".join(explain(detail) for detail in error.errors()[:5])) from error


def _add_error_answers(app: FastAPI) -> None:
    @app.exception_handler(StarletteHTTPException)
    def refused(_: Request, error: StarletteHTTPException) -> JSONResponse:
        return _json({"ok": False, "error": error.detail}, error.status_code, error.headers)

    @app.exception_handler(RequestValidationError)
    def unusable(_: Request, error: RequestValidationError) -> JSONResponse:
        said = "; ".join(f"{detail['loc'][-1]}: {detail['msg']}" for detail in error.errors())
        return _json({"ok": False, "error": said}, 422)

    @app.exception_handler(sqlite3.OperationalError)
    def no_store(_: Request, error: sqlite3.OperationalError) -> JSONResponse:
        # A full disk or a lock that is held: the client keeps its report and comes again.
        return _json({"ok": False, "error": f"the store failed: {error}"}, 503)


def _json(content: Any, status: int = 200, headers: Any = None) -> JSONResponse:
    return JSONResponse(content, status, {**HEADERS, **(headers or {})})


def _describe_callback(app: FastAPI) -> None:
    # The route reads its body itself, to refuse a large one early, so FastAPI cannot see its model.
    made = app.openapi
    schemas = Callback.model_json_schema(ref_template="#/components/schemas/{model}").pop("$defs")

    def with_schemas() -> dict[str, Any]:
        document = made()
        document["components"].setdefault("schemas", {}).update(schemas)
        return document

    app.openapi = with_schemas  # type: ignore[method-assign]  # the way FastAPI documents


def _callback_body() -> dict[str, Any]:
    schema = Callback.model_json_schema(ref_template="#/components/schemas/{model}")
    del schema["$defs"]
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _callback_answers() -> dict[int | str, dict[str, Any]]:
    return {
        400: {"description": "the contract does not hold, or the state machine does not take it"},
        401: {"description": "missing or wrong bearer token"},
        413: {"description": "the body is larger than 2 MB"},
        503: {"description": "the store failed"},
    }
