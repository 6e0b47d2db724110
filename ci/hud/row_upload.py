"""Send a run's tests to a server of our own, one file of rows for all its shards.

They wait as long as `outbox/rows/waiting.json` is in the run's folder.

Upstream's relay takes counts alone, so only our server is sent these. They follow the run's callback, because
the server takes rows only of a job that was reported.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

from ci.core.errors import SpyreCiError
from ci.hud.answers import REMEDIES, Answer, Outcome
from ci.hud.client import Target, UnansweredError
from ci.hud.dispatched import kept
from ci.hud.outbox import Left
from ci.hud.payload import Ways, read_identity
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
    """The numbers that rows of a run of ours have, as its callback has them.

    Raises:
        MissingInputError: the run has no summary yet.
        BadFileError: its summary does not say who the run is.
    """
    ways = Ways(environ=environ, dispatch=kept(run_dir))
    told = ways.workflow(read_identity(run_dir), "completed")
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
    waiting = _waiting(run_dir)
    if not waiting.is_file():
        return None
    try:
        answer = _send(run_dir, target, environ)
    except UnansweredError as error:
        answer = error.answer
    except SpyreCiError as error:
        answer = Answer(outcome=Outcome.INVALID, detail=error.placed, remedy=error.remedy or "")
    if answer.outcome is not Outcome.DELIVERED:
        return Left(
            identity=IDENTITY,
            outcome=answer.outcome.value,
            reason=f"the run's tests were not taken: {answer.detail}",
            remedy=answer.remedy or REMEDIES.get(answer.outcome, ""),
        )
    waiting.unlink()
    return None


def _send(run_dir: Path, target: Target, environ: Mapping[str, str]) -> Answer:
    job = job_of_run(run_dir, target.repository, environ)
    packed = io.BytesIO()
    with RowWriter(packed) as writer:
        for row in rows_of_files(junit_files([run_dir / JUNIT_FOLDER]), job):
            writer.write(row)
    data = packed.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    reply = target.ask(
        data,
        path=UPLOAD_PATH,
        timeout_s=TIMEOUT_S,
        params={**job.keys(), "name": "rows", "rows": writer.rows, "sha256": digest},
        headers={"Content-Type": "application/octet-stream"},
    )
    outcome = reply.outcome
    # It is taken at its word only where its count is ours.
    if reply.status == HTTPStatus.OK and reply.content.get("stored") == writer.rows:
        outcome = Outcome.DELIVERED
    elif reply.status in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:  # it does not know the job yet
        outcome = Outcome.RETRY
    return reply.means(outcome)


def _waiting(run_dir: Path) -> Path:
    return run_dir / "outbox" / "rows" / "waiting.json"
