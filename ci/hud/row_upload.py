"""Sending a run's tests to a server of our own, one file of rows for all its shards.

    outbox/rows/waiting.json      they are to be sent
    outbox/rows/delivered.json    the server has them, with its answer

Upstream's relay takes counts alone, so only our server is sent these. They follow the run's callback, because
the server takes rows only of a job that was reported.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ci.core.errors import SpyreCiError
from ci.core.text import one_line
from ci.hud.answers import REMEDIES, Answer, Outcome
from ci.hud.client import Target, no_reply, own_route
from ci.hud.outbox import Left
from ci.hud.payload import job_of
from ci.hud.wire import NoReplyError, exchange
from ci.store.identity import job_number
from ci.store.row_files import RowWriter, junit_files, rows_of_files
from ci.store.rows import Job
from test_selection.files import write_json

KIND = "hud-rows"
JUNIT_FOLDER = "junit"
UPLOAD_PATH = "/api/upload/test_run"
TIMEOUT_S = 300.0
IDENTITY = "rows of tests"


def note_rows(run_dir: Path) -> None:
    """Note that a run's tests are to be sent, where it has any JUnit."""
    if (run_dir / JUNIT_FOLDER).is_dir():
        write_json(_waiting(run_dir), KIND, {"file": JUNIT_FOLDER})


def rows_wait(run_dir: Path) -> bool:
    """Whether a run's tests are still to be sent."""
    return _waiting(run_dir).is_file()


def job_of_run(run_dir: Path, repository: str, environ: Mapping[str, str]) -> Job:
    """The numbers that rows of a run of ours have.

    Raises:
        MissingInputError: the run has no summary yet.
        BadFileError: its summary does not say who the run is.
    """
    told = job_of(run_dir, environ)
    return Job(
        workflow_id=int(told["run_id"]),
        workflow_run_attempt=told["run_attempt"],
        job_id=job_number(told["check_run_id"], repository=repository),
    )


def send_rows(run_dir: Path, target: Target, environ: Mapping[str, str]) -> Left | None:
    """Send a run's tests, once they wait; what stays and why, or None.

    Args:
        run_dir: the run's folder, with its JUnit files.
        target: our server.
        environ: as for the run's callback.
    """
    if not rows_wait(run_dir):
        return None
    try:
        answer = _send(run_dir, target, environ)
    except SpyreCiError as error:
        return Left(
            identity=IDENTITY, outcome=Outcome.INVALID.value, reason=str(error), remedy=error.remedy or ""
        )
    if answer.outcome is not Outcome.DELIVERED:
        return Left(
            identity=IDENTITY,
            outcome=answer.outcome.value,
            reason=f"the run's tests were not taken: {answer.detail}",
            remedy=REMEDIES.get(answer.outcome, ""),
        )
    write_json(_waiting(run_dir).with_name("delivered.json"), KIND, {"answer": answer.detail})
    _waiting(run_dir).unlink()
    return None


def _send(run_dir: Path, target: Target, environ: Mapping[str, str]) -> Answer:
    job = job_of_run(run_dir, target.repository, environ)
    packed = io.BytesIO()
    with RowWriter(packed) as writer:
        for row in rows_of_files(junit_files([run_dir / JUNIT_FOLDER]), job):
            writer.write(row)
    data = packed.getvalue()
    query = {
        **{name: str(number) for name, number in job.keys().items()},
        "name": "rows",
        "rows": str(writer.rows),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    token = target.token()
    try:
        reply = exchange(
            "POST",
            own_route(target, UPLOAD_PATH),
            token=token,
            timeout_s=max(TIMEOUT_S, target.timeout_s),
            data=data,
            params=query,
            headers={"Content-Type": "application/octet-stream"},
        )
    except NoReplyError as error:
        return no_reply(error, token)
    return _read(reply.status, reply.body, writer.rows, token=token)


def _read(status: int, body: str, rows: int, *, token: str) -> Answer:
    """What the server's answer means; it is taken at its word only where its count is ours."""
    said = f"HTTP {status}: {one_line(body)}"
    said = said.replace(token, "***") if token else said
    outcome = {401: Outcome.UNAUTHORIZED, 403: Outcome.UNAUTHORIZED, 429: Outcome.RATE_LIMITED}.get(status)
    if outcome is None:
        outcome = Outcome.RETRY if status in {404, 408, 409} or status >= 500 else Outcome.REFUSED  # noqa: PLR2004
    if status == 200 and _stored(body) == rows:  # noqa: PLR2004  # HTTP's own number
        outcome = Outcome.DELIVERED
    return Answer(outcome=outcome, status=status, detail=said)


def _stored(body: str) -> int | None:
    try:
        told: Any = json.loads(body)
        return int(told["stored"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _waiting(run_dir: Path) -> Path:
    return run_dir / "outbox" / "rows" / "waiting.json"
