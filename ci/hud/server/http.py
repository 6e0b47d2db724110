"""What every route shares: bodies read within bounds, answers with their headers, errors in their form."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from typing import Any, NoReturn

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect

from ci.hud.callback import MAX_BYTES
from ci.store.database import StoreUnavailableError

HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
CHALLENGE = {"WWW-Authenticate": "Bearer"}
CALLBACK_PATH = "/github/callback"
RESULTS_PATH = "/api/crcr/results"
STORE_RETRY_S = 30
BODY_TIMEOUT_S = 60.0


class Refusal(BaseModel):
    """The answer to a request that is not taken; the relay's route says `detail`, HUD's `error` alone."""

    ok: bool | None = None
    error: str | None = None
    detail: str | None = None


def json_body(schema: dict[str, Any]) -> dict[str, Any]:
    """What the OpenAPI document says of a route that reads its body by itself."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


async def receive(
    request: Request, take: Callable[[bytes], object], *, limit: int, timeout_s: float, remedy: str = ""
) -> None:
    """Take the body of a request in, chunk by chunk.

    Args:
        request: whose body.
        take: is given each chunk.
        limit: bytes at most.
        timeout_s: seconds for all of it.
        remedy: said after what is too large.

    Raises:
        HTTPException: 413, it is larger than `limit` bytes, or says so; 408, it takes too long; 400, the
            client went away.
    """
    refused = HTTPException(413, f"the body is larger than {limit} bytes{remedy}")
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told[:20]) > limit:
        raise refused
    size = 0
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise refused
                take(chunk)
    except TimeoutError as error:
        # Whoever drips a body must not hold its connection and what came of it for ever.
        raise HTTPException(408, f"the body took longer than {timeout_s:g} s") from error
    except ClientDisconnect as error:
        raise HTTPException(400, "the body is incomplete") from error


async def read_body(request: Request, *, limit: int = MAX_BYTES) -> bytes:
    """The body of a request, within a minute.

    Raises:
        HTTPException: as `receive` says.
    """
    body = bytearray()
    await receive(request, body.extend, limit=limit, timeout_s=BODY_TIMEOUT_S)
    return bytes(body)


def parse_json(body: bytes) -> Any:
    """The value a body holds.

    Raises:
        HTTPException: 400, it is no JSON (RFC 8259 knows no NaN).
    """
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, "Invalid JSON body") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def json_answer(content: Any, status: int = 200, headers: Any = None) -> JSONResponse:
    """An answer of JSON with the headers every answer has."""
    return _Answer(content, status, {**HEADERS, **(headers or {})})


class _Answer(JSONResponse):
    """JSON of any text: of half a surrogate pair, which no UTF-8 has, a question mark."""

    def render(self, content: Any) -> bytes:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


def html_answer(page: str, nonce: str, *, status: int = 200) -> HTMLResponse:
    """A page that may load nothing but its own style and script, and send forms to this server alone.

    Args:
        page: the HTML.
        nonce: the one its style and script elements have.
        status: of the answer.
    """
    policy = (
        f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; img-src data:; "
        f"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
    return HTMLResponse(page, status, headers={**HEADERS, "Content-Security-Policy": policy})


def add_error_answers(app: FastAPI) -> None:
    """Answer errors in the words of the relay, of HUD, or of our own routes: `{"ok": false, "error": …}`."""

    @app.exception_handler(StarletteHTTPException)
    def refused(request: Request, error: StarletteHTTPException) -> JSONResponse:
        return _refusal(request, error.detail, error.status_code, error.headers)

    @app.exception_handler(RequestValidationError)
    def unusable(request: Request, error: RequestValidationError) -> JSONResponse:
        said = "; ".join(f"{detail['loc'][-1]}: {detail['msg']}" for detail in error.errors())
        return _refusal(request, said, 422)

    @app.exception_handler(RecursionError)
    def too_deep(request: Request, _: Exception) -> JSONResponse:
        return _refusal(request, "the body is nested too deeply", 400)

    @app.exception_handler(StoreUnavailableError)
    @app.exception_handler(sqlite3.OperationalError)
    def no_store(request: Request, error: Exception) -> JSONResponse:
        # A full disk or a lock that is held: the client keeps its report and comes again.
        return _refusal(request, f"the store failed: {error}", 503, {"Retry-After": str(STORE_RETRY_S)})


def _refusal(request: Request, said: str, status: int, headers: Any = None) -> JSONResponse:
    if request.url.path.startswith(CALLBACK_PATH):
        content: dict[str, Any] = {"detail": said}
    elif request.url.path == RESULTS_PATH:
        content = {"error": said}
    else:
        content = {"ok": False, "error": said}
    return json_answer(content, status, headers)
