"""When a job that fell silent counts as timed out.

Silence counts after six hours, as upstream's sweeper has it, but for two things: a job whose name holds
a colon, or is a number, is swept as well (upstream takes its own key apart wrongly and loses it); and a job
that reports after all is still taken, because its own word is better than our guess.
"""

from __future__ import annotations

from ci.hud.server.states import key_of, state_of
from ci.store.prune import text_of
from ci.store.store import Store

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


def sweep(store: Store, *, at: float) -> int:
    """End the jobs that have been silent for six hours; how many they were.

    Args:
        store: of the jobs.
        at: seconds since the epoch.
    """
    with store.transaction() as connection:
        silent = connection.execute(_SILENT, (text_of(at - SILENT_S),)).fetchall()
        for number, *names in silent:
            state = state_of(connection, key_of(*names))
            begun = state is not None and state[0] == "IN_PROGRESS"
            took = round(max(0.0, at - state[1]), 3) if state is not None and begun else None
            connection.execute(_END, (text_of(at), took, text_of(at), number))
    return len(silent)
