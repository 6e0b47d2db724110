"""How the server learns which pull requests' jobs were dispatched: from whoever starts them, or from GitHub.

`POST /api/dispatch` is for the CI that starts a job, with the server's own token or a shared secret; an OIDC
token gives no right to it, since a reporter must not vouch for its own dispatch. `POST /github/webhook` takes
GitHub's `pull_request` events, signed with the webhook's secret.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Annotated

from fastapi import FastAPI, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ci.config.section import REPOSITORY
from ci.hud.callback import Name, explain
from ci.hud.server.document import body_of
from ci.hud.server.gate import Gate, Vouched, same_secret
from ci.hud.server.http import digest_of, json_answer, parse_json, read_body
from ci.hud.server.record import note_dispatched
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


def add_dispatch(app: FastAPI, store: Store, gate: Gate) -> None:
    """Add both routes."""

    @app.post(
        DISPATCH_PATH,
        responses={
            200: {"model": DispatchAnswer, "description": "it is noted"},
            400: {"description": "it names no delivery"},
            401: {"description": "missing or wrong credentials"},
            403: {"description": "they give no right to dispatch for that repository"},
            429: {"description": "too many requests of this repository; Retry-After says when"},
        },
        openapi_extra=body_of(Dispatch),
    )
    async def dispatch(request: Request) -> JSONResponse:
        """Note that a pull request's job was dispatched, so that its callbacks are taken; twice is once."""
        vouched = await gate.admit(request)
        body = await read_body(request)
        vouched.check(digest_of(body))
        try:
            told = Dispatch.model_validate(parse_json(body))
        except ValidationError as error:
            raise HTTPException(400, "; ".join(explain(one) for one in error.errors()[:5])) from error
        repository = told.repository or vouched.repository
        _check_right(gate, vouched, repository)
        new = await run_in_threadpool(
            note_dispatched, store, delivery_id=told.delivery_id, repository=repository, at=gate.clock()
        )
        return json_answer({"ok": True, "repository": repository, "new": new})

    @app.post(WEBHOOK_PATH, include_in_schema=False)
    async def webhook(request: Request) -> JSONResponse:
        body = await read_body(request)
        _check_signature(request, body, gate.webhook_secret)
        event, delivery = _event(request)
        content = parse_json(body)
        action = content.get("action") if isinstance(content, dict) else None
        if event != "pull_request" or not isinstance(action, str) or action not in ACTIONS:
            return json_answer({"ok": True, "status": "ignored"})
        for repository in gate.levels.heard():
            await run_in_threadpool(
                note_dispatched, store, delivery_id=delivery, repository=repository, at=gate.clock()
            )
        return json_answer({"ok": True, "status": "dispatched", "repositories": gate.levels.heard()})


def _check_right(gate: Gate, vouched: Vouched, repository: str) -> None:
    if vouched.by == "oidc":
        raise HTTPException(403, "a reporter cannot dispatch: use the server's token or a shared secret")
    if vouched.by != "token" and repository != vouched.repository:
        raise HTTPException(403, f"the secret speaks for {vouched.repository} alone")
    if gate.level(repository) is None:
        raise HTTPException(403, f"{repository} is not at level L2 or above in the allow-list")


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
