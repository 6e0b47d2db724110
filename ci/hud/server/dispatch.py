"""How the server learns which pull requests' jobs were dispatched: from whoever starts them, or from GitHub.

`POST /api/dispatch` is for whoever has the server's own token: the CI that starts a job, or a client that no
relay dispatches. An OIDC token gives no right to it, since a reporter must not vouch for its own dispatch.
`POST /github/webhook` takes GitHub's `pull_request` events, signed with the webhook's secret.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Annotated

from fastapi import FastAPI, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ci.config.section import REPOSITORY
from ci.hud.callback import Name, explain
from ci.hud.server.auth import Auth, Bearer, same_secret
from ci.hud.server.http import json_answer, parse_json, read_body
from ci.hud.server.record import note_dispatched
from ci.hud.server.relay import json_body
from ci.store.store import Store

DISPATCH_PATH = "/api/dispatch"
WEBHOOK_PATH = "/github/webhook"
# What makes a new head commit to test.
ACTIONS = frozenset({"opened", "reopened", "synchronize"})


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


def add_dispatch(app: FastAPI, store: Store, auth: Auth, clock: Callable[[], float]) -> None:
    """Add both routes."""

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
            raise HTTPException(403, "a reporter cannot dispatch: use the server's token")
        repository = told.repository or writer.repository
        if auth.allow_list.level(repository) is None:
            raise HTTPException(403, f"{repository} is not at level L2 or above in the allow-list")
        new = await run_in_threadpool(
            note_dispatched, store, delivery_id=told.delivery_id, repository=repository, at=clock()
        )
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
            await run_in_threadpool(
                note_dispatched, store, delivery_id=delivery, repository=repository, at=clock()
            )
        return json_answer({"ok": True, "status": "dispatched", "repositories": heard})


def _check_signature(request: Request, body: bytes, secret: str) -> None:
    given = request.headers.get("x-hub-signature-256", "")
    wanted = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    if not secret or not same_secret(given, wanted):
        raise HTTPException(401, "the webhook's signature does not hold")


def _event(request: Request) -> tuple[str, str]:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(400, "set the webhook's content type to application/json")
    delivery = request.headers.get("x-github-delivery", "")
    if not 0 < len(delivery) <= 1024:  # noqa: PLR2004  # as a callback's delivery_id
        raise HTTPException(400, "X-GitHub-Delivery: is missing")
    return request.headers.get("x-github-event", ""), delivery
