"""Surface A exactly as upstream answers: the order of its checks, its codes, its `{"detail": …}`, its flaws.

The order: path (404), method (405), JSON (400), token (401, 403), allow-list (200 ignored), rate limit (429),
fields (400, 500), dispatch record, status and state (400), then HUD, whose refusal is a 500 although the
state is advanced.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from ci.hud.callback import NIGHTLY_EVENTS
from ci.hud.client import CALLBACK_PATH
from ci.hud.server.gate import Gate, Vouched
from ci.hud.server.http import digest_of, json_answer, read_body
from ci.hud.server.lenient import MissingFieldError, row_of_body, step_of
from ci.hud.server.relay import ignored
from ci.hud.server.replays import answered, note_answer
from ci.hud.server.states import CallbackRefusedError, Step
from ci.hud.server.store import Store

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
# What Python raises where upstream's code meets a type it does not expect; upstream answers 500.
MALFORMED = (ValueError, TypeError, AttributeError, OverflowError, KeyError, RecursionError)
FAILED = "Internal server error"


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
            return self.store.advance(step, at=self.at)
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
