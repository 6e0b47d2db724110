"""Send a run's tests to a server of our own, one file of rows for all its shards.

They wait as long as `outbox/rows/waiting.json` is in the run's folder, which says whose they are: what was
left may be sent by no job of the CI, or by another one.

Upstream's relay takes counts alone, so only our server is sent these. They follow the run's callback, because
the server takes rows only of a job that was reported.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from ci.core.errors import SpyreCiError
from ci.hud.answers import REMEDIES, Answer, Outcome
from ci.hud.client import Target, UnansweredError
from ci.hud.dispatched import kept
from ci.hud.outbox import Left, Outbox, OutboxBusyError
from ci.hud.payload import Ways, read_identity
from ci.store.identity import job_number
from ci.store.row_files import RowWriter, junit_files, rows_of_files
from ci.store.rows import Job
from test_selection.files import convert, read_json, write_json

KIND = "hud-rows"
JUNIT_FOLDER = "junit"
UPLOAD_PATH = "/api/upload/test_run"
TIMEOUT_S = 300.0
IDENTITY = "rows of tests"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """Rows that wait: the job they are of, as its callback has it."""

    run_id: int
    run_attempt: int
    check_run_id: str

    @classmethod
    def of(cls, workflow: Mapping[str, Any]) -> _Waiting:
        """Those of the job that a callback's `workflow` is of."""
        return cls(
            run_id=int(workflow["run_id"]),
            run_attempt=workflow["run_attempt"],
            check_run_id=workflow["check_run_id"],
        )

    def job(self, repository: str) -> Job:
        """The numbers that their rows have."""
        return Job(
            workflow_id=self.run_id,
            workflow_run_attempt=self.run_attempt,
            job_id=job_number(self.check_run_id, repository=repository),
        )


def note_rows(run_dir: Path, workflow: Mapping[str, Any]) -> None:
    """Note that a run's tests are to be sent, where it has any JUnit.

    Args:
        run_dir: the run's folder.
        workflow: of the callback that they follow.
    """
    if (run_dir / JUNIT_FOLDER).is_dir():
        write_json(_waiting(run_dir), KIND, asdict(_Waiting.of(workflow)))


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
    return _Waiting.of(ways.workflow(read_identity(run_dir), "completed")).job(repository)


def send_rows(outbox: Outbox, target: Target, *, timeout_s: float) -> Left | None:
    """Send a run's tests, once they wait; what stays and why, or None.

    Args:
        outbox: of the run, in whose folder the JUnit files are.
        target: our server.
        timeout_s: until another process that sends has to have ended: of two files the server refuses one.
    """
    if not rows_wait(outbox.run_dir):
        return None
    try:
        with outbox.sending(timeout_s=timeout_s):
            return _send_alone(outbox.run_dir, target) if rows_wait(outbox.run_dir) else None
    except OutboxBusyError as error:
        return Left(identity=IDENTITY, outcome="busy", reason=error.what, remedy=error.remedy or "")


def _send_alone(run_dir: Path, target: Target) -> Left | None:
    try:
        answer = _send(run_dir, target)
    except UnansweredError as error:
        answer = error.answer
    except SpyreCiError as error:
        answer = Answer(outcome=Outcome.INVALID, detail=error.placed, remedy=error.remedy or "")
    if answer.outcome is not Outcome.DELIVERED:
        return Left(
            identity=IDENTITY,
            outcome=answer.outcome.value,
            reason=f"the run's tests were not accepted: {answer.detail}",
            remedy=answer.remedy or REMEDIES.get(answer.outcome, ""),
        )
    _waiting(run_dir).unlink()
    return None


def _send(run_dir: Path, target: Target) -> Answer:
    path = _waiting(run_dir)
    waits = convert(
        read_json(path, KIND), _Waiting, where=path, remedy="report it again with `spyre-ci report`"
    )
    job = waits.job(target.repository)
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
