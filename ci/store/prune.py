"""How long the store keeps a job.

Pruning takes away what was last heard of before a day, tests and all: by the server's own time of the last
word, not by the start a job claims, so that a wrong clock of a reporter neither keeps a job for ever nor
takes it away at once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ci.store.row_store import RowStore
from ci.store.rows import Job
from ci.store.store import Store

DAY_S = 24 * 3600.0
# A row without the server's time came from elsewhere; its start is all there is.
_HEARD = "CASE WHEN _inserted_at = '' THEN started_at ELSE _inserted_at END"
# A file of rows is a word as well. Both times are the same one, as text and in seconds.
_IS_OLD = f"""
{_HEARD} < ? AND {_HEARD} != '' AND NOT EXISTS (
    SELECT 1 FROM upload AS u WHERE u.at >= ? AND u.workflow_id = CAST(run_id AS INTEGER)
        AND u.workflow_run_attempt = run_attempt AND u.job_id = crcr_workflow_job.job_id)
"""  # noqa: S608  # our own words
_OLD = f"""
SELECT id, dynamoKey, CAST(run_id AS INTEGER), run_attempt, job_id FROM crcr_workflow_job
WHERE {_IS_OLD} ORDER BY id
"""  # noqa: S608  # the same
_NO_SETUPS = "DELETE FROM file_setup WHERE workflow_id = ? AND workflow_run_attempt = ? AND job_id = ?"
_STILL_OLD = f"SELECT count(*) FROM crcr_workflow_job WHERE id = ? AND {_IS_OLD}"  # noqa: S608  # the same
_SAME = """
SELECT count(*) FROM crcr_workflow_job
WHERE job_id = ? AND CAST(run_id AS INTEGER) = ? AND run_attempt = ? AND id != ?
"""
_UPLOADS = "FROM upload WHERE workflow_id = ? AND workflow_run_attempt = ? AND job_id = ?"
_WITHOUT_JOB = """
at < ? AND NOT EXISTS (
    SELECT 1 FROM crcr_workflow_job AS j WHERE j.job_id = upload.job_id
        AND CAST(j.run_id AS INTEGER) = upload.workflow_id AND j.run_attempt = upload.workflow_run_attempt)
"""
_LEFT = f"""
SELECT id, workflow_id, workflow_run_attempt, job_id, stored FROM upload WHERE {_WITHOUT_JOB}
"""  # noqa: S608  # the same
# Whoever sends the same file again while it goes must not be told that it is here.
_GOING = "UPDATE upload SET sha256 = '' WHERE"
STATE_KEPT_S = 3 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What pruning took away, or would: jobs (an attempt each), files of rows, the tests in them, states."""

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
    dry_run: bool = False,
    keep: Collection[int] = (),
    only: Collection[int] | None = None,
) -> Pruned:
    """Take away jobs last heard of before a time, and the states no callback needs any more.

    A job goes in several short transactions, its own row last: one that is cut off is finished by the next.
    A job that is heard of meanwhile stays, with what is sent of it from then on.

    Args:
        store: of the jobs.
        rows: of their tests.
        before: seconds since the epoch.
        at: now, in seconds since the epoch.
        dry_run: whether it only counts.
        keep: numbers of runs whose jobs stay, however old.
        only: numbers of jobs, of which no other goes; None: all.
    """
    jobs = uploads = tests = 0
    for old in map(_Old._make, _fetch(store, _OLD, text_of(before), before)):
        if old.run_id in keep or (only is not None and old.number not in only):
            continue
        gone = _prune_job(store, rows, old, before, dry_run=dry_run)
        jobs, uploads, tests = jobs + gone.jobs, uploads + gone.uploads, tests + gone.tests
    for upload, run_id, attempt, job_id, stored in _fetch(store, _LEFT, before):
        if run_id in keep:
            continue
        if not dry_run and not _goes(store, f"id = ? AND {_WITHOUT_JOB}", upload, before):
            continue
        uploads, tests = uploads + 1, tests + stored
        if not dry_run:
            job = Job(workflow_id=run_id, workflow_run_attempt=attempt, job_id=job_id)
            _drop_upload(store, rows, job, upload)
            _settle(store, rows, job)
    return Pruned(jobs=jobs, uploads=uploads, tests=tests, states=_prune_states(store, at, dry_run=dry_run))


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


class _Old(NamedTuple):
    """A job to prune."""

    number: int
    key: str
    run_id: int
    run_attempt: int
    job_id: int

    @property
    def job(self) -> Job:
        return Job(workflow_id=self.run_id, workflow_run_attempt=self.run_attempt, job_id=self.job_id)


def _prune_job(store: Store, rows: RowStore, old: _Old, before: float, *, dry_run: bool) -> Pruned:
    # Upstream's keys let two jobs share their tests' numbers; the rows stay until the last of them goes.
    same = (old.job_id, old.run_id, old.run_attempt, old.number)
    with store.transaction() as connection:
        if not _still_old(connection, old, before):
            return Pruned()
        shared = connection.execute(_SAME, same).fetchone()[0]
        numbers = old.job.numbers()
        found = [] if shared else connection.execute(f"SELECT id, stored {_UPLOADS}", numbers).fetchall()
        if not dry_run:
            connection.executemany(f"{_GOING} id = ?", [(upload,) for upload, _ in found])
    told = Pruned(jobs=1, uploads=len(found), tests=sum(stored for _, stored in found))
    if dry_run:
        return told
    for upload, _ in found:
        _drop_upload(store, rows, old.job, upload)
    with store.transaction() as connection:
        goes = _still_old(connection, old, before)
        if goes:
            connection.execute("DELETE FROM job_detail WHERE dynamoKey = ?", (old.key,))
            if not shared:
                connection.execute(_NO_SETUPS, old.job.numbers())
            connection.execute("DELETE FROM crcr_workflow_job WHERE id = ?", (old.number,))
        if not shared and not rows.counts_anew:
            _settle(store, rows, old.job)
    if not shared and rows.counts_anew:
        # Elsewhere, and too slow to hold up callbacks.
        _settle(store, rows, old.job)
    return told if goes else replace(told, jobs=0)


def _still_old(connection: sqlite3.Connection, old: _Old, before: float) -> bool:
    found = connection.execute(_STILL_OLD, (old.number, text_of(before), before)).fetchone()[0]
    return bool(found)


def _goes(store: Store, which: str, *values: sqlite3._SqliteData) -> bool:
    with store.transaction() as connection:
        return bool(connection.execute(f"{_GOING} {which}", values).rowcount)


def _drop_upload(store: Store, rows: RowStore, job: Job, upload: int) -> None:
    rows.remove(job, upload)
    with store.transaction() as connection:
        connection.execute("DELETE FROM upload WHERE id = ?", (upload,))


def _settle(store: Store, rows: RowStore, job: Job) -> None:
    """Make a job's counts those of what is left of it."""
    if _fetch(store, f"SELECT count(*) {_UPLOADS}", *job.numbers())[0][0]:
        rows.recount(job)
    else:
        rows.forget_counts(job)


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


def text_of(at: float) -> str:
    """A time in the form the store's rows have."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
