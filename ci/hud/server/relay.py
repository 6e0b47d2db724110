"""Surface A, the callback of the Cross-Repository CI Relay, and how the server learns what was dispatched.

`POST /github/callback` is answered in upstream's order: path (404), method (405), JSON (400), token (401,
403), allow-list (200 ignored), rate limit (429), fields (400; 500 of a run's number that is none), dispatch
record, status and state (400), then HUD, whose refusal is passed on although the state is kept. What differs
on purpose is a table of docs/hud.md.

`POST /api/dispatch` is for whoever has the server's own token: the CI that starts a job, or a client that no
relay dispatches. An OIDC token gives no right to it, since a reporter must not vouch for its own dispatch.
`POST /github/webhook` takes GitHub's `pull_request` events, signed with the webhook's secret.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Annotated, Literal

from fastapi import FastAPI, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ci.config.section import REPOSITORY
from ci.hud.callback import Name, explain
from ci.hud.server.auth import Auth, Bearer, same_secret
from ci.hud.server.http import CALLBACK_PATH, Refusal, json_answer, json_body, parse_json, read_body
from ci.hud.server.record import record_callback
from ci.hud.server.states import note_dispatched
from ci.store.store import Store

DISPATCH_PATH = "/api/dispatch"
WEBHOOK_PATH = "/github/webhook"
# What makes a new head commit to test.
ACTIONS = frozenset({"opened", "reopened", "synchronize"})
# The relay validates no more than this; the rest of the contract is what HUD's pages need.
CALLBACK = {
    "type": "object",
    "required": ["delivery_id", "workflow"],
    "properties": {
        "event_type": {"type": "string"},
        "payload": {"type": "object"},
        "workflow": {
            "type": "object",
            "required": ["status", "name", "job_name", "check_run_id", "run_id"],
        },
    },
}


class CallbackAnswer(BaseModel):
    """What became of a report; `ignored` of a repository that is not heard."""

    ok: bool
    status: Literal["in_progress", "completed", "ignored"]


class Dispatch(BaseModel):
    """A job that was started for a pull request."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    delivery_id: Name
    repository: Annotated[str, Field(pattern=REPOSITORY)] | None = None


class DispatchAnswer(BaseModel):
    """Whose jobs are taken now, and whether that is news."""

    ok: bool
    repository: str
    new: bool


def add_relay(app: FastAPI, store: Store, auth: Auth, clock: Callable[[], float]) -> None:
    """Add the route of callbacks, and those of dispatches."""
    _add_dispatches(app, store, auth, clock)

    @app.post(
        CALLBACK_PATH,
        response_model=CallbackAnswer,
        responses={500: {"model": Refusal, "description": "run_id or run_attempt is not a number"}},
        openapi_extra=json_body(CALLBACK),
    )
    async def callback(request: Request, bearer: Bearer) -> JSONResponse:
        """Take a job's report, as the Cross-Repository CI Relay does."""
        content = parse_json(await read_body(request))
        writer = await auth.writer(bearer)
        if writer.level is None:
            return json_answer({"ok": True, "status": "ignored"})
        auth.count(writer.repository)
        named = {"repository": writer.repository, "level": writer.level}
        status = await run_in_threadpool(record_callback, store, content, at=clock(), **named)
        return json_answer({"ok": True, "status": status})


def _add_dispatches(app: FastAPI, store: Store, auth: Auth, clock: Callable[[], float]) -> None:
    async def note(delivery_id: str, repository: str) -> bool:
        return await run_in_threadpool(
            note_dispatched, store, delivery_id=delivery_id, repository=repository, at=clock()
        )

    @app.post(
        DISPATCH_PATH, response_model=DispatchAnswer, openapi_extra=json_body(Dispatch.model_json_schema())
    )
    async def dispatch(request: Request, bearer: Bearer) -> JSONResponse:
        """Note that a pull request's job was dispatched, so that its callbacks are taken; twice is once."""
        writer = await auth.admit(bearer)
        try:
            told = Dispatch.model_validate(parse_json(await read_body(request)))
        except ValidationError as error:
            raise HTTPException(400, "; ".join(explain(one) for one in error.errors()[:5])) from error
        if not writer.own:
            raise HTTPException(403, "a reporter's token cannot dispatch: use the server's own")
        repository = told.repository or writer.repository
        if auth.allow_list.level(repository) is None:
            raise HTTPException(403, f"{repository} is not at level L2 or above in the allow-list")
        new = await note(told.delivery_id, repository)
        return json_answer({"ok": True, "repository": repository, "new": new})

    @app.post(WEBHOOK_PATH, include_in_schema=False)
    async def webhook(request: Request) -> JSONResponse:
        body = await read_body(request)
        _check_signature(request, body, auth.webhook_secret)
        event, delivery = _event(request)
        content = parse_json(body)
        action = content.get("action") if isinstance(content, dict) else None
        if event != "pull_request" or not isinstance(action, str) or action not in ACTIONS:
            return json_answer({"ok": True, "status": "ignored"})
        heard = auth.allow_list.heard()
        for repository in heard:
            await note(delivery, repository)
        return json_answer({"ok": True, "status": "dispatched", "repositories": heard})


def _check_signature(request: Request, body: bytes, secret: str) -> None:
    given = request.headers.get("x-hub-signature-256", "")
    wanted = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    if not secret or not same_secret(given, wanted):
        raise HTTPException(401, "the webhook's signature is invalid")


def _event(request: Request) -> tuple[str, str]:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(400, "set the webhook's content type to application/json")
    delivery = request.headers.get("x-github-delivery", "")
    if not 0 < len(delivery) <= 1024:  # noqa: PLR2004  # as a callback's delivery_id
        raise HTTPException(400, "X-GitHub-Delivery: is missing")
    return request.headers.get("x-github-event", ""), delivery
