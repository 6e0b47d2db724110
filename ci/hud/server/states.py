"""The relay's states of a pull request's jobs: DISPATCHED, IN_PROGRESS, COMPLETED, kept for three days.

The key is `delivery:repository:run_id:attempt:job_name`, that of a dispatch `delivery:repository`.

A job that is silent for six hours counts as timed out, as upstream's sweeper has it, but for two things: a
job whose name holds a colon, or is a number, is swept as well (upstream takes its own key apart wrongly and
loses it); and a job that reports after all is still taken, because its own word is better than our guess.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from starlette.exceptions import HTTPException

from ci.store.database import moment
from ci.store.prune import STATE_KEPT_S
from ci.store.store import Store

# Which state a status needs before it and leaves behind, and the time that is measured between them.
TRANSITIONS = {
    "in_progress": ("DISPATCHED", "IN_PROGRESS", "queue_time"),
    "completed": ("IN_PROGRESS", "COMPLETED", "execution_time"),
}
RESERVED_RUN = 0
SILENT_S = 6 * 3600.0
_SILENT = """
SELECT id, delivery_id, downstream_repo, run_id, run_attempt, job_name FROM crcr_workflow_job
WHERE status = 'in_progress' AND _inserted_at < ? ORDER BY id
"""
# An empty artifact or count stays: nothing is known but that it ended.
_END = """
UPDATE crcr_workflow_job SET status = 'completed', conclusion = 'timed_out', completed_at = ?,
    execution_time = coalesce(?, execution_time), _inserted_at = ?
WHERE id = ?
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a callback asks the state machine for.

    Attributes:
        delivery_id: of the dispatch.
        repository: the downstream one, as the token vouches for it.
        run_id: of the workflow run; 0 is the dispatch's own and never taken.
        run_attempt: from 1; a higher one starts fresh.
        job_name: may be empty, as upstream lets it.
        status: `in_progress` or `completed`; others are refused.
    """

    delivery_id: str
    repository: str
    run_id: int
    run_attempt: int
    job_name: str
    status: str


def note_dispatched(store: Store, *, delivery_id: str, repository: str, at: float) -> bool:
    """Note that a pull request's job was dispatched, and return whether it is news.

    Args:
        store: of the states.
        delivery_id: of the webhook.
        repository: the downstream one.
        at: seconds since the epoch.
    """
    with store.transaction() as connection:
        cursor = connection.execute(
            "INSERT INTO callback_state VALUES (?, 'DISPATCHED', ?) ON CONFLICT (key) DO NOTHING",
            (_key(delivery_id, repository), at),
        )
    return cursor.rowcount > 0


def advance(connection: sqlite3.Connection, step: Step, at: float) -> dict[str, float]:
    """Take a pull request's job a step on, and measure the time since the one before.

    Args:
        connection: in a transaction.
        step: what is asked.
        at: seconds since the epoch.

    Returns:
        `queue_time` of a job that begins, `execution_time` of one that ends, in seconds. A re-run has no
        queue time: its delivery is the first run's, and the time since then is none in a queue.

    Raises:
        HTTPException: 400, it was not dispatched, or this is no step from where it is.
    """
    connection.execute("DELETE FROM callback_state WHERE at < ?", (at - STATE_KEPT_S,))
    dispatched = _state_of(connection, _key(step.delivery_id, step.repository))
    if dispatched is None:
        raise HTTPException(400, "callback rejected: no matching dispatch record")
    if step.status not in TRANSITIONS:
        raise HTTPException(400, f"unknown callback status: {step.status!r}")
    key = _key(step.delivery_id, step.repository, step.run_id, step.run_attempt, step.job_name)
    state, since = _state_of(connection, key) or dispatched
    needed, after, metric = TRANSITIONS[step.status]
    if step.run_id == RESERVED_RUN or state != needed:
        raise HTTPException(
            400,
            f"callback rejected: invalid state transition delivery_id={step.delivery_id} "
            f"repo={step.repository} status={step.status}",
        )
    connection.execute("INSERT OR REPLACE INTO callback_state VALUES (?, ?, ?)", (key, after, at))
    if metric == "queue_time" and step.run_attempt > 1:
        return {}
    return {metric: _seconds(since, at)}


def sweep(store: Store, *, at: float) -> int:
    """End the jobs that have been silent for six hours; how many they were.

    Args:
        store: of the jobs.
        at: seconds since the epoch.
    """
    with store.transaction() as connection:
        silent = connection.execute(_SILENT, (moment(at - SILENT_S),)).fetchall()
        for number, *names in silent:
            state, since = _state_of(connection, _key(*names)) or ("", at)
            took = _seconds(since, at) if state == "IN_PROGRESS" else None
            connection.execute(_END, (moment(at), took, moment(at), number))
    return len(silent)


def _key(*names: str | int) -> str:
    """The relay's key of a dispatch, or of a job, whose name may be empty."""
    return ":".join(map(str, names if names[-1] != "" else names[:-1]))


def _state_of(connection: sqlite3.Connection, key: str) -> tuple[str, float] | None:
    """A state and since when, in seconds since the epoch; None where there is none."""
    row = connection.execute("SELECT state, at FROM callback_state WHERE key = ?", (key,)).fetchone()
    return None if row is None else (str(row[0]), float(row[1]))


def _seconds(since: float, at: float) -> float:
    return round(max(0.0, at - since), 3)
