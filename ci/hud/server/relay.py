"""Surface A, the relay's callback: better than upstream, or exactly as upstream answers, with its flaws.

The better one tells what breaks the contract, and does not store it. Upstream's order: path (404), method
(405), JSON (400), token (401, 403), allow-list (200 ignored), rate limit (429), fields (400, 500), dispatch
record, status and state (400), then HUD, whose refusal is a 500 although the state is advanced.

A signed request that is repeated is answered as it was, and changes nothing: our client signs each try anew,
but by the second, so a try again within one second is the very same request. What was answered is kept in the
store, beside what the request wrote: it outlives a restart, and all processes of a store know of it.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Any, Literal

from fastapi import FastAPI, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError

from ci.hud.callback import NIGHTLY_EVENTS, Callback, explain
from ci.hud.client import CALLBACK_PATH
from ci.hud.hmac_auth import WINDOW_S
from ci.hud.server.document import body_of
from ci.hud.server.gate import Gate, Vouched
from ci.hud.server.http import digest_of, json_answer, parse_json, read_body
from ci.hud.server.record import MissingFieldError, record_callback, row_of_body, step_of
from ci.hud.server.states import CallbackRefusedError, Step, advance
from ci.store.store import Store

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
# What Python raises where upstream's code meets a type it does not expect; upstream answers 500.
MALFORMED = (ValueError, TypeError, AttributeError, OverflowError, KeyError, RecursionError)
FAILED = "Internal server error"
# A signature may be dated ahead by the window, and holds until as much after its date.
KEPT_S = 2 * WINDOW_S


class CallbackAnswer(BaseModel):
    """What became of a report; `ignored` of a repository that is not heard, and why."""

    ok: bool
    status: Literal["in_progress", "completed", "ignored"]
    reason: str | None = None


ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": CallbackAnswer, "description": "it is stored, or the repository is not heard"},
    400: {"description": "the contract does not hold, or the state machine does not take it"},
    401: {"description": "missing or wrong credentials"},
    403: {"description": "genuine credentials of somebody who is not registered"},
    413: {"description": "the body is larger than 2 MB"},
    429: {"description": "too many requests of this repository; Retry-After says when to come again"},
    503: {"description": "the store failed, or the issuer's keys cannot be had"},
}


def add_relay(app: FastAPI, store: Store, gate: Gate) -> None:
    """Add `POST /github/callback`."""

    @app.post(CALLBACK_PATH, responses=ANSWERS, openapi_extra=body_of(Callback))
    async def callback(request: Request) -> JSONResponse:
        """Take a job's report, as the Cross-Repository CI Relay does."""
        vouched = await gate.vouch(request)
        level = gate.level(vouched.repository)
        if level is None:
            return json_answer(ignored(gate, vouched.repository))
        gate.count(vouched.repository)
        body = await read_body(request)
        vouched.check(digest_of(body))
        report = parse_callback(parse_json(body))
        try:
            return json_answer(
                await run_in_threadpool(_take, store, report, vouched, at=gate.clock(), level=level)
            )
        except CallbackRefusedError as error:
            raise HTTPException(400, str(error)) from error


def _take(store: Store, report: Callback, vouched: Vouched, *, at: float, level: str) -> Any:
    with store.transaction() as connection:
        before = answered(connection, vouched.signature)
        if before is not None:
            return before
        record_callback(store, report, repository=vouched.repository, at=at, level=level)
        answer = {"ok": True, "status": report.workflow.status}
        note_answer(connection, vouched.signature, answer, at=at)
        return answer


def ignored(gate: Gate, repository: str) -> dict[str, Any]:
    """The answer to a repository that is not heard; it says why, where upstream does not."""
    answer: dict[str, Any] = {"ok": True, "status": "ignored"}
    if gate.strict:
        return answer
    level, meant = gate.levels.level(repository), gate.levels.meant(repository)
    if level is not None:
        reason = f"{repository} is at level {level}, and reports are taken from L2 on"
    elif meant is not None:
        reason = f"{repository} is written {meant} in the allow-list, and letter case counts"
    else:
        reason = f"{repository} is not in the allow-list"
    return {**answer, "reason": reason}


def parse_callback(content: Any) -> Callback:
    """The callback a body holds.

    Raises:
        HTTPException: 400, the contract does not hold; the first few mistakes are named.
    """
    try:
        return Callback.model_validate(content)
    except ValidationError as error:
        raise HTTPException(400, "; ".join(explain(detail) for detail in error.errors()[:5])) from error


def add_strict_relay(app: FastAPI, store: Store, gate: Gate) -> None:
    """Add `/github/callback` as upstream has it."""

    @app.api_route(CALLBACK_PATH, methods=METHODS, include_in_schema=False)
    async def callback(request: Request) -> JSONResponse:
        if request.method != "POST":
            return _said(405, "Method not allowed")
        try:
            body = await read_body(request)
            content = _parse(body)
            vouched = await gate.vouch(request)
            vouched.check(digest_of(body))
            level = gate.level(vouched.repository)
            if level is None:
                return json_answer(ignored(gate, vouched.repository))
            gate.count(vouched.repository)
            relay = _Relay(store=store, at=gate.clock(), vouched=vouched, level=level)
            return json_answer(await run_in_threadpool(relay.answer, content))
        except HTTPException as error:
            return _said(error.status_code, error.detail)
        except (MissingFieldError, CallbackRefusedError) as error:
            return _said(400, str(error))
        except MALFORMED:
            return _said(500, FAILED)

    @app.api_route(CALLBACK_PATH + "/{rest:path}", methods=METHODS, include_in_schema=False)
    def no_such_path(rest: str) -> JSONResponse:  # noqa: ARG001  # the route's own
        return _said(404, "Not found")


def _parse(body: bytes) -> Any:
    """What a body holds; an empty one an empty table.

    Raises:
        HTTPException: 400, no JSON.
        ValueError: not UTF-8, or a number of too many digits, which upstream answers 500 to.
    """
    try:
        return json.loads(body) if body else {}
    except json.JSONDecodeError as error:
        raise HTTPException(400, "Invalid JSON body") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Relay:
    store: Store
    at: float
    vouched: Vouched
    level: str

    @property
    def repository(self) -> str:
        return self.vouched.repository

    def answer(self, content: Any) -> Any:
        with self.store.transaction() as connection:
            before = answered(connection, self.vouched.signature)
        if before is not None:
            return before
        answer = {"ok": True, "status": self.take(content)}
        with self.store.transaction() as connection:
            note_answer(connection, self.vouched.signature, answer, at=self.at)
        return answer

    def take(self, content: Any) -> str:
        nightly = content.get("event_type", "") in NIGHTLY_EVENTS
        step = step_of(content, self.repository)
        if nightly and step.status != "completed":
            raise CallbackRefusedError(
                f"nightly/periodic callbacks must have status 'completed', got {step.status!r}"
            )
        self.tell_hud(content, {} if nightly else self.advance(step))
        return step.status

    def advance(self, step: Step) -> dict[str, float]:
        try:
            with self.store.transaction() as connection:
                return advance(connection, step, self.at, rerun_queues=True)
        except sqlite3.OperationalError as error:
            raise HTTPException(503, "temporary outage: failed to persist callback state") from error

    def tell_hud(self, content: Any, metrics: dict[str, float]) -> None:
        # Whatever goes wrong at HUD is a 500 of upstream's relay, which has stored the state by then.
        try:
            row, detail = row_of_body(content, repository=self.repository, level=self.level, metrics=metrics)
            self.store.put(row, detail, at=self.at)
        except (MissingFieldError, sqlite3.OperationalError) as error:
            raise HTTPException(500, f"HUD failed: {error}") from error


def _said(status: int, detail: str) -> JSONResponse:
    return json_answer({"detail": detail}, status)


def answered(connection: sqlite3.Connection, signature: str) -> Any | None:
    """What a signed request was answered when it was taken; None where it was not, or has no signature."""
    query = "SELECT answer FROM signed_request WHERE signature = ?"
    found = connection.execute(query, (signature,)).fetchone() if signature else None
    return None if found is None else json.loads(found[0])


def note_answer(connection: sqlite3.Connection, signature: str, answer: Any, *, at: float) -> None:
    """Keep what a signed request is answered, for as long as its signature holds.

    Args:
        connection: in a transaction; the one of what the request wrote, where that is one.
        signature: of the request; empty where it has none.
        answer: JSON.
        at: seconds since the epoch.
    """
    if signature:
        connection.execute("DELETE FROM signed_request WHERE at < ?", (at - KEPT_S,))
        values = (signature, json.dumps(answer), at)
        connection.execute("INSERT OR REPLACE INTO signed_request VALUES (?, ?, ?)", values)
