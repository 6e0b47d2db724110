"""The relay's states of a pull request's jobs: DISPATCHED, IN_PROGRESS, COMPLETED, kept for three days.

The key is `delivery:repository:run_id:attempt:job_name`, that of a dispatch `delivery:repository`.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from ci.store.prune import STATE_KEPT_S

# Which state a status needs before it and leaves behind; anything else is no transition.
TRANSITIONS = {"in_progress": ("DISPATCHED", "IN_PROGRESS"), "completed": ("IN_PROGRESS", "COMPLETED")}
RESERVED_RUN = 0


class CallbackRefusedError(Exception):
    """A callback the state machine does not take; its text is told to the client."""


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

    @property
    def key(self) -> str:
        """The relay's key of the job's state."""
        return key_of(self.delivery_id, self.repository, self.run_id, self.run_attempt, self.job_name)


def note_dispatch(connection: sqlite3.Connection, *, delivery_id: str, repository: str, at: float) -> bool:
    """Note that a job was dispatched; whether it is news."""
    cursor = connection.execute(
        "INSERT INTO callback_state VALUES (?, 'DISPATCHED', ?) ON CONFLICT (key) DO NOTHING",
        (_dispatch_key(delivery_id, repository), at),
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
        CallbackRefusedError: it was not dispatched, or this is no step from where it is.
    """
    connection.execute("DELETE FROM callback_state WHERE at < ?", (at - STATE_KEPT_S,))
    dispatched = state_of(connection, _dispatch_key(step.delivery_id, step.repository))
    if dispatched is None:
        raise CallbackRefusedError("callback rejected: no matching dispatch record")
    if step.status not in TRANSITIONS:
        raise CallbackRefusedError(f"unknown callback status: {step.status!r}")
    before = state_of(connection, step.key)
    needed, after = TRANSITIONS[step.status]
    if step.run_id == RESERVED_RUN or (before[0] if before else "DISPATCHED") != needed:
        raise CallbackRefusedError(
            f"callback rejected: invalid state transition delivery_id={step.delivery_id} "
            f"repo={step.repository} status={step.status}"
        )
    connection.execute("INSERT OR REPLACE INTO callback_state VALUES (?, ?, ?)", (step.key, after, at))
    since = before[1] if before else dispatched[1]
    name = "queue_time" if step.status == "in_progress" else "execution_time"
    if name == "queue_time" and step.run_attempt > 1:
        return {}
    return {name: round(max(0.0, at - since), 3)}


def _dispatch_key(delivery_id: str, repository: str) -> str:
    return f"{delivery_id}:{repository}"


def key_of(delivery_id: str, repository: str, run_id: int | str, run_attempt: int, job_name: str) -> str:
    """The relay's key of a job's state."""
    key = f"{delivery_id}:{repository}:{run_id}:{run_attempt}"
    return f"{key}:{job_name}" if job_name else key


def state_of(connection: sqlite3.Connection, key: str) -> tuple[str, float] | None:
    """A state and since when, in seconds since the epoch; None where there is none."""
    row = connection.execute("SELECT state, at FROM callback_state WHERE key = ?", (key,)).fetchone()
    return None if row is None else (str(row[0]), float(row[1]))
