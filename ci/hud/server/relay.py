"""Surface A, the relay's callback, better than upstream: what breaks the contract is told, and not stored."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import FastAPI, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError

from ci.hud.callback import Callback, explain
from ci.hud.client import CALLBACK_PATH
from ci.hud.server.document import body_of
from ci.hud.server.gate import Gate, Vouched
from ci.hud.server.http import digest_of, json_answer, parse_json, read_body
from ci.hud.server.replays import answered, note_answer
from ci.hud.server.states import CallbackRefusedError
from ci.hud.server.store import Store


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
        store.record(report, repository=vouched.repository, at=at, level=level)
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
