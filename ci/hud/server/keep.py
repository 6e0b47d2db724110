"""How long the store keeps a job: pruning takes away what was last heard of before a day, tests and all.

By the server's own time of the last word, not by the start a job claims: a wrong clock of a reporter neither
keeps a job for ever nor takes it away at once.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from ci.hud.rows import Job
from ci.hud.server.row_store import RowStore
from ci.hud.server.states import STATE_KEPT_S
from ci.hud.server.store import Store
from ci.hud.server.sweeper import text_of

DAY_S = 24 * 3600.0
# A row without the server's time came from elsewhere; its start is all there is.
_HEARD = "CASE WHEN _inserted_at = '' THEN started_at ELSE _inserted_at END"
_OLD = f"""
SELECT id, dynamoKey, CAST(run_id AS INTEGER), run_attempt, job_id FROM crcr_workflow_job
WHERE {_HEARD} < ? AND {_HEARD} != '' ORDER BY id
"""  # noqa: S608  # our own words
_SAME = """
SELECT count(*) FROM crcr_workflow_job
WHERE job_id = ? AND CAST(run_id AS INTEGER) = ? AND run_attempt = ? AND id != ?
"""
_UPLOADS = "FROM upload WHERE workflow_id = ? AND workflow_run_attempt = ? AND job_id = ?"
_LEFT = """
FROM upload AS u WHERE at < ? AND NOT EXISTS (
    SELECT 1 FROM crcr_workflow_job AS j WHERE j.job_id = u.job_id
        AND CAST(j.run_id AS INTEGER) = u.workflow_id AND j.run_attempt = u.workflow_run_attempt)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What pruning took away, or would: jobs (an attempt each), files of rows, the tests in them, states."""

    jobs: int = 0
    uploads: int = 0
    tests: int = 0
    states: int = 0


def prune(store: Store, rows: RowStore, *, before: float, at: float, dry_run: bool = False) -> Pruned:
    """Take away jobs last heard of before a time, and the states no callback needs any more.

    A job goes in several short transactions, its own row last: one that is cut off is finished by the next.

    Args:
        store: of the jobs.
        rows: of their tests.
        before: seconds since the epoch.
        at: now, in seconds since the epoch.
        dry_run: whether it only counts.
    """
    jobs = uploads = tests = 0
    for number, key, run_id, attempt, job_id in _fetch(store, _OLD, text_of(before)):
        job = Job(workflow_id=run_id, workflow_run_attempt=attempt, job_id=job_id)
        # Upstream's keys let two jobs share their tests' numbers; the rows stay until the last of them goes.
        shared = _fetch(store, _SAME, job_id, run_id, attempt, number)[0][0]
        for upload, stored in (
            [] if shared else _fetch(store, f"SELECT id, stored {_UPLOADS}", *job.numbers())
        ):
            uploads, tests = uploads + 1, tests + stored
            if not dry_run:
                _drop_upload(store, rows, job, upload)
        jobs += 1
        if not dry_run:
            _drop_job(store, rows, job, number, key, alone=not shared)
    for upload, run_id, attempt, job_id, stored in _fetch(
        store,
        f"SELECT id, workflow_id, workflow_run_attempt, job_id, stored {_LEFT}",
        before,
    ):
        uploads, tests = uploads + 1, tests + stored
        if not dry_run:
            job = Job(workflow_id=run_id, workflow_run_attempt=attempt, job_id=job_id)
            _drop_upload(store, rows, job, upload)
            rows.forget_counts(job)
    return Pruned(jobs=jobs, uploads=uploads, tests=tests, states=_prune_states(store, at, dry_run=dry_run))


def give_back(store: Store, *, whole: bool = False) -> None:
    """Give the disk back what pruning freed.

    Args:
        store: whose file shrinks.
        whole: whether a file of before, which cannot give back piece by piece, is written anew; it is
            locked meanwhile.
    """
    with store.alone() as connection:
        if connection.execute("PRAGMA auto_vacuum").fetchone()[0] == 2:  # noqa: PLR2004  # INCREMENTAL
            # As a script: `execute` takes one step of it, which frees one page.
            connection.executescript("PRAGMA incremental_vacuum")
        elif whole:
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _drop_upload(store: Store, rows: RowStore, job: Job, upload: int) -> None:
    rows.remove(job, upload)
    with store.transaction() as connection:
        connection.execute("DELETE FROM upload WHERE id = ?", (upload,))


def _drop_job(store: Store, rows: RowStore, job: Job, number: int, key: str, *, alone: bool) -> None:
    if alone:
        rows.forget_counts(job)
    with store.transaction() as connection:
        connection.execute("DELETE FROM job_detail WHERE dynamoKey = ?", (key,))
        connection.execute("DELETE FROM crcr_workflow_job WHERE id = ?", (number,))


def _prune_states(store: Store, at: float, *, dry_run: bool) -> int:
    with store.transaction() as connection:
        old = (at - STATE_KEPT_S,)
        if dry_run:
            return int(
                connection.execute("SELECT count(*) FROM callback_state WHERE at < ?", old).fetchone()[0]
            )
        return connection.execute("DELETE FROM callback_state WHERE at < ?", old).rowcount


def _fetch(store: Store, query: str, *values: sqlite3._SqliteData) -> list[tuple[Any, ...]]:
    with store.transaction() as connection:
        return connection.execute(query, values).fetchall()
