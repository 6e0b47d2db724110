"""Surface A, the callback of the Cross-Repository CI Relay, answered in upstream's order.

Path (404), method (405), JSON (400), token (401, 403), allow-list (200 ignored), rate limit (429), fields
(400; 500 of a run's number that is none), dispatch record, status and state (400), then HUD, whose refusal is
passed on although the state is kept. What differs on purpose is a table of docs/hud.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from fastapi import FastAPI, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from ci.hud.server.auth import Auth, Bearer
from ci.hud.server.http import CALLBACK_PATH, Refusal, json_answer, parse_json, read_body
from ci.hud.server.record import MalformedError, MissingFieldError, record_callback
from ci.hud.server.states import CallbackRefusedError
from ci.store.store import Store


class CallbackAnswer(BaseModel):
    """What became of a report; `ignored` of a repository that is not heard."""

    ok: bool
    status: Literal["in_progress", "completed", "ignored"]


# The relay validates no more than this; the rest of the contract is what HUD's pages need.
WORKFLOW: dict[str, Any] = {
    "type": "object",
    "required": ["status", "name", "job_name", "check_run_id", "run_id"],
}
CALLBACK = {
    "type": "object",
    "required": ["delivery_id", "workflow"],
    "properties": {"event_type": {"type": "string"}, "payload": {"type": "object"}, "workflow": WORKFLOW},
}


def json_body(schema: dict[str, Any]) -> dict[str, Any]:
    """What the OpenAPI document says of a route that reads its body by itself."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def add_relay(app: FastAPI, store: Store, auth: Auth, clock: Callable[[], float]) -> None:
    """Add `POST /github/callback`."""

    @app.post(
        CALLBACK_PATH,
        response_model=CallbackAnswer,
        responses={500: {"model": Refusal, "description": "run_id or run_attempt is no number"}},
        openapi_extra=json_body(CALLBACK),
    )
    async def callback(request: Request, bearer: Bearer) -> JSONResponse:
        """Take a job's report, as the Cross-Repository CI Relay does."""
        content = parse_json(await read_body(request))
        writer = await auth.writer(bearer)
        if writer.level is None:
            return json_answer({"ok": True, "status": "ignored"})
        auth.count(writer.repository)
        try:
            status = await run_in_threadpool(
                record_callback,
                store,
                content,
                repository=writer.repository,
                at=clock(),
                level=writer.level,
            )
        except CallbackRefusedError as error:
            raise HTTPException(400, str(error)) from error
        except MissingFieldError as error:
            raise HTTPException(400, f"HUD rejected callback: HTTP 400: {error}") from error
        except MalformedError as error:
            raise HTTPException(500, "Internal server error") from error
        return json_answer({"ok": True, "status": status})
