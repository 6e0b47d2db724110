"""How long the store keeps a job.

Pruning takes away what was last heard of before a day, tests and all: by the server's own time of the last
word, not by the start a job claims, so that a wrong clock of a reporter neither keeps a job for ever nor
takes it away at once.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ci.store.database import moment
from ci.store.row_store import RowStore
from ci.store.store import Store
from ci.store.uploads import Uploads

DAY_S = 24 * 3600.0
STATE_KEPT_S = 3 * DAY_S
# A row without the server's time came from elsewhere; its start is all there is.
_HEARD = "CASE WHEN _inserted_at = '' THEN started_at ELSE _inserted_at END"
# A file of rows is a word as well.
_OLD_JOBS = f"""
SELECT dynamoKey, CAST(run_id AS INTEGER), run_attempt, job_id FROM crcr_workflow_job AS j
WHERE {_HEARD} < :text AND {_HEARD} != '' AND NOT EXISTS (
    SELECT 1 FROM upload AS u WHERE u.at >= :before AND u.workflow_id = CAST(j.run_id AS INTEGER)
        AND u.workflow_run_attempt = j.run_attempt AND u.job_id = j.job_id)
    AND CAST(j.run_id AS INTEGER) NOT IN (SELECT value FROM json_each(:keep))
    AND (:only IS NULL OR j.id IN (SELECT value FROM json_each(:only)))
"""  # noqa: S608  # our own words
# Upstream's keys let two jobs share their tests' numbers; what is of both stays until the last of them goes.
_SETUPS_WITHOUT_JOB = """
DELETE FROM file_setup WHERE workflow_id = ? AND workflow_run_attempt = ? AND job_id = ? AND NOT EXISTS (
    SELECT 1 FROM crcr_workflow_job AS j
    WHERE j.job_id = file_setup.job_id AND j.run_attempt = file_setup.workflow_run_attempt
        AND CAST(j.run_id AS INTEGER) = file_setup.workflow_id)
"""
_WITHOUT_JOB = """
SELECT id, stored FROM upload
WHERE at < :before AND state != 'GOING' AND workflow_id NOT IN (SELECT value FROM json_each(:keep))
    AND NOT EXISTS (
        SELECT 1 FROM crcr_workflow_job AS j
        WHERE j.job_id = upload.job_id AND j.run_attempt = upload.workflow_run_attempt
            AND CAST(j.run_id AS INTEGER) = upload.workflow_id)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What pruning took away: jobs (an attempt each), files of rows, the tests in them, states."""

    jobs: int = 0
    uploads: int = 0
    tests: int = 0
    states: int = 0


def prune(
    store: Store,
    rows: RowStore,
    *,
    before: float,
    at: float,
    keep: Collection[int] = (),
    only: Collection[int] | None = None,
) -> Pruned:
    """Take away jobs last heard of before a time, and the states no callback needs any more.

    Jobs go in one transaction, in which their files of rows are marked as going: nobody sees them from then
    on. The rows follow in short ones; what is cut off is finished by the next.

    Args:
        store: of the jobs.
        rows: of their tests.
        before: seconds since the epoch.
        at: now, in seconds since the epoch.
        keep: numbers of runs whose jobs stay, however old.
        only: numbers of jobs, of which no other goes; None: all.
    """
    values: dict[str, str | float | None] = {
        "before": before,
        "text": moment(before),
        "keep": json.dumps([*keep]),
        "only": None if only is None else json.dumps([*only]),
    }
    with store.transaction() as connection:
        pruned = _prune_ledger(connection, values, at)
    Uploads(store, rows).clean(at=at)
    return pruned


def prune_daily(
    store: Store, rows: RowStore, *, keep_days: float, at: float, keep: Collection[int] = ()
) -> Pruned:
    """Prune where the store says nobody did for a day; for who reports to a store that nobody serves.

    Args:
        store: of the jobs.
        rows: of their tests.
        keep_days: after which a job goes.
        at: now, in seconds since the epoch.
        keep: numbers of runs whose jobs stay, however old.
    """
    with store.transaction() as connection:
        done = connection.execute("SELECT at FROM chore WHERE name = 'prune'").fetchone()
        # A clock that was ahead once must not keep everything until then.
        if done is not None and 0 <= at - done[0] < DAY_S:
            return Pruned()
        # Before it is done, or whoever comes meanwhile does it as well.
        connection.execute("INSERT OR REPLACE INTO chore VALUES ('prune', ?)", (at,))
    gone = prune(store, rows, before=at - keep_days * DAY_S, at=at, keep=keep)
    if gone.jobs or gone.uploads:
        give_back(store)
    return gone


def _prune_ledger(
    connection: sqlite3.Connection, values: Mapping[str, str | float | None], at: float
) -> Pruned:
    jobs = connection.execute(_OLD_JOBS, values).fetchall()
    for table in ("job_detail", "crcr_workflow_job"):
        connection.executemany(f"DELETE FROM {table} WHERE dynamoKey = ?", [job[:1] for job in jobs])  # noqa: S608  # our names
    connection.executemany(_SETUPS_WITHOUT_JOB, [job[1:] for job in jobs])
    uploads = connection.execute(_WITHOUT_JOB, values).fetchall()
    connection.executemany("UPDATE upload SET state = 'GOING' WHERE id = ?", [(one,) for one, _ in uploads])
    old = (at - STATE_KEPT_S,)
    return Pruned(
        jobs=len(jobs),
        uploads=len(uploads),
        tests=sum(stored for _, stored in uploads),
        states=connection.execute("DELETE FROM callback_state WHERE at < ?", old).rowcount,
    )


def give_back(store: Store) -> None:
    """Give the disk back what pruning freed."""
    with store.alone() as connection:
        # As a script: `execute` takes one step of it, which frees one page.
        connection.executescript("PRAGMA incremental_vacuum")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
