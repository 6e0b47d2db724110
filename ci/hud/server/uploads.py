"""Taking files of rows: idempotent by content, whole or not at all, and counted after they are stored."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from ci.hud.rows import Job, Row
from ci.hud.server.row_store import RowStore
from ci.hud.server.row_values import Totals, chunks, columns_of, counted, summary_totals
from ci.hud.server.store import Store

UploadKind = Literal["junit", "test_run", "failed_test_runs", "test_run_summary"]
# These hold every test of their part of a job; the others are for who has no more to tell.
FULL: tuple[UploadKind, ...] = ("junit", "test_run")
ABANDONED_S = 3600.0
# Two pieces are in memory, one read and one stored.
MOST_CHARACTERS = 16 * 1024 * 1024
_ENTER = """
INSERT INTO upload (workflow_id, workflow_run_attempt, job_id, kind, name, sha256, sent, at)
VALUES (?, ?, ?, ?, ?, ?, -1, ?)
"""
_DONE = "UPDATE upload SET sent = ?, stored = ?, done = 1 WHERE id = ?"
SENT_AGAIN = "the same file was sent again meanwhile"
_LISTED = """
SELECT id, kind, name, sha256, sent, stored, done FROM upload
WHERE workflow_id = ? AND workflow_run_attempt = ? AND job_id = ?
"""


class UploadRefusedError(Exception):
    """A file of rows that is not taken; its text is told to the client.

    Args:
        status: the HTTP status of the answer.
        what: why.
    """

    def __init__(self, status: int, what: str) -> None:
        super().__init__(what)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A file that is sent.

    Attributes:
        repository: who sends it, as its token vouches.
        job: whose rows it holds.
        kind: their layout.
        name: of the file; another of the same name takes its place.
        sha256: of its bytes, in hex.
    """

    repository: str
    job: Job
    kind: UploadKind
    name: str
    sha256: str

    @property
    def stored_name(self) -> str:
        """The name it is listed under; a job has one summary."""
        return "" if self.kind == "test_run_summary" else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What came of it.

    Attributes:
        sent: rows in the file.
        stored: rows of it in the tables, counted there.
        unchanged: why nothing had to be done; empty where something was.
    """

    sent: int
    stored: int
    unchanged: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """An upload under way; the `stale` ones are taken away when it is whole."""

    number: int
    stale: tuple[int, ...]


class Uploads:
    """Takes files of rows into a store.

    Args:
        store: holds the jobs and the list of uploads.
        rows: keeps the rows.
    """

    def __init__(self, store: Store, rows: RowStore) -> None:
        self._store = store
        self._rows = rows

    def take(self, incoming: Incoming, rows: Iterable[Row], *, at: float) -> Receipt:
        """Store a file's rows.

        Args:
            incoming: which file.
            rows: read from it; what it raises takes back what was stored of them.
            at: seconds since the epoch.

        Raises:
            UploadRefusedError: nobody reported the job, it is another's, its tests came in another layout,
                the same file is being sent at this moment, or not all of it was stored.
        """
        begun = self._begin(incoming, at)
        if isinstance(begun, Receipt):
            return begun
        totals = Totals()
        try:
            if incoming.kind == "test_run_summary":
                totals = summary_totals(rows)
            else:
                self._insert(rows, begun.number, totals)
            return self._finish(incoming, begun, totals)
        except BaseException:
            self._take_back(incoming.job, begun.number)
            raise

    def clean(self, *, at: float) -> int:
        """Take back what uploads left that ended in the middle an hour ago or longer; how many they were."""
        with self._store.transaction() as connection:
            left = connection.execute(
                "SELECT id, workflow_id, workflow_run_attempt, job_id FROM upload WHERE NOT done AND at < ?",
                (at - ABANDONED_S,),
            ).fetchall()
        for number, *ids in left:
            job = Job(workflow_id=ids[0], workflow_run_attempt=ids[1], job_id=ids[2])
            self._take_back(job, number)
        return len(left)

    def _begin(self, incoming: Incoming, at: float) -> Receipt | _Begun:
        """Note that the file is being taken; a receipt where there is nothing to take."""
        job, kind = incoming.job, incoming.kind
        with self._store.transaction() as connection:
            _check_owner(connection, incoming)
            others = _uploads(connection, job)
            full = {one["kind"] for one in others if one["kind"] in FULL and one["done"]}
            if kind in FULL and full - {kind}:
                told = f"the job's tests came as {', '.join(full)}; send them in one layout only"
                raise UploadRefusedError(409, told)
            if kind not in FULL and full:
                return Receipt(sent=0, stored=0, unchanged="the job's tests are here in full")
            same = [one for one in others if (one["kind"], one["name"]) == (kind, incoming.stored_name)]
            for one in same:
                if one["done"] and one["sha256"] == incoming.sha256:
                    return Receipt(sent=one["sent"], stored=one["stored"], unchanged="the same file is here")
            connection.executemany(
                "DELETE FROM upload WHERE id = ?", [(one["id"],) for one in same if not one["done"]]
            )
            number = connection.execute(
                _ENTER,
                (*job.numbers(), kind, incoming.stored_name, incoming.sha256, at),
            ).lastrowid
        partial = [one for one in others if kind in FULL and one["kind"] not in FULL]
        return _Begun(number=int(number or 0), stale=tuple(one["id"] for one in [*partial, *same]))

    def _insert(self, rows: Iterable[Row], number: int, totals: Totals) -> None:
        columns = columns_of(rows, upload=number)
        if not self._rows.counts_anew:
            columns = counted(columns, totals)
        # The next rows are read while the last ones are stored.
        with ThreadPoolExecutor(1, thread_name_prefix="upload") as pool:
            storing: Future[None] | None = None
            for chunk in chunks(columns, most_rows=self._rows.chunk_rows, most_characters=MOST_CHARACTERS):
                if storing is not None:
                    storing.result()
                self._check_current(number)
                totals.rows += len(chunk)
                storing = pool.submit(self._rows.insert, chunk)
            if storing is not None:
                storing.result()

    def _finish(self, incoming: Incoming, begun: _Begun, totals: Totals) -> Receipt:
        job, summary = incoming.job, incoming.kind == "test_run_summary"
        stored = totals.rows if summary else self._rows.count(job, begun.number)
        if stored != totals.rows:
            raise UploadRefusedError(
                500, f"{totals.rows} rows were sent and {stored} are stored; send it again"
            )
        self._check_current(begun.number)
        if self._rows.counts_anew:
            # Elsewhere than the list of uploads, and too slow to hold up callbacks.
            self._replace(incoming, begun, totals)
        with self._store.transaction() as connection:
            connection.executemany("DELETE FROM upload WHERE id = ?", [(number,) for number in begun.stale])
            told = (totals.rows, stored, begun.number)
            if not connection.execute(_DONE, told).rowcount:
                raise UploadRefusedError(409, SENT_AGAIN)
            if not self._rows.counts_anew:
                self._replace(incoming, begun, totals)
        return Receipt(sent=totals.rows, stored=stored)

    def _replace(self, incoming: Incoming, begun: _Begun, totals: Totals) -> None:
        for number in begun.stale:
            self._rows.remove(incoming.job, number)
        self._count(incoming, totals, again=bool(begun.stale))

    def _count(self, incoming: Incoming, totals: Totals, *, again: bool) -> None:
        """Bring the job's counts up to date; failed rows alone make none, as they say not how many passed."""
        if incoming.kind == "test_run_summary":
            if again:
                self._rows.forget_counts(incoming.job)
            self._rows.add_totals(incoming.job, totals)
        elif incoming.kind in FULL:
            if again or self._rows.counts_anew:
                self._rows.recount(incoming.job)
            else:
                self._rows.add_totals(incoming.job, totals)

    def _check_current(self, number: int) -> None:
        with self._store.transaction() as connection:
            if connection.execute("SELECT 1 FROM upload WHERE id = ?", (number,)).fetchone() is None:
                raise UploadRefusedError(409, SENT_AGAIN)

    def _take_back(self, job: Job, number: int) -> None:
        self._rows.remove(job, number)
        with self._store.transaction() as connection:
            connection.execute("DELETE FROM upload WHERE id = ?", (number,))


def _check_owner(connection: sqlite3.Connection, incoming: Incoming) -> None:
    job = incoming.job
    owners = connection.execute(
        "SELECT DISTINCT downstream_repo FROM crcr_workflow_job "
        "WHERE job_id = ? AND run_id = ? AND run_attempt = ?",
        (job.job_id, str(job.workflow_id), job.workflow_run_attempt),
    ).fetchall()
    if not owners:
        raise UploadRefusedError(404, "no such job was reported; send its callback first")
    if owners != [(incoming.repository,)]:
        raise UploadRefusedError(403, "the job is another repository's")


def _uploads(connection: sqlite3.Connection, job: Job) -> list[dict[str, Any]]:
    found = connection.execute(_LISTED, job.numbers())
    names = [column[0] for column in found.description]
    return [dict(zip(names, one, strict=True)) for one in found]
