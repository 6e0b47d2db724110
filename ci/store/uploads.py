"""Taking files of rows: idempotent by content, whole or not at all, and counted after they are stored."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from ci.store.identity import stored_number
from ci.store.row_layout import TestRun, TestRunSummary
from ci.store.row_store import RowStore
from ci.store.row_values import StoredRow, Totals, chunks, counted, stored_rows, summary_totals
from ci.store.rows import Job
from ci.store.store import Store

UploadKind = Literal["junit", "test_run", "failed_test_runs", "test_run_summary"]
# These hold every test of their part of a job; the others are for who has no more to tell.
FULL: tuple[UploadKind, ...] = ("junit", "test_run")
ABANDONED_S = 3600.0
# Of one file; a few kilobytes, unpacked, may hold as many test cases as take minutes to store.
MOST_ROWS = 5_000_000
# Two pieces are in memory, one read and one stored.
MOST_CHARACTERS = 16 * 1024 * 1024
_ENTER = """
INSERT INTO upload (workflow_id, workflow_run_attempt, job_id, kind, name, sha256, sent, at)
VALUES (?, ?, ?, ?, ?, ?, -1, ?)
"""
_DONE = "UPDATE upload SET sent = ?, stored = ?, done = 1 WHERE id = ?"
SENT_AGAIN = "another upload took its place meanwhile"
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
        job: whose rows it holds, as its sender names it.
        kind: their layout.
        name: of the file; another of the same name takes its place.
        sha256: of its bytes, in hex.
        rows: how many it was said to hold; None: nobody said.
    """

    repository: str
    job: Job
    kind: UploadKind
    name: str
    sha256: str
    rows: int | None = None

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
    """An upload under way.

    Attributes:
        job: whose rows it holds, as the tables name it.
        number: of the upload.
        stale: uploads that are taken away when it is whole.
    """

    job: Job
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
        # Of two layouts of a job that come at once, the one that is whole later sees the other.
        self._finishing = threading.Lock()

    def take(
        self, incoming: Incoming, rows: Iterable[TestRun] | Iterable[TestRunSummary], *, at: float
    ) -> Receipt:
        """Store a file's rows.

        Args:
            incoming: which file.
            rows: read from it, of its kind's layout; what it raises takes back what was stored of them.
            at: seconds since the epoch.

        Raises:
            UploadRefusedError: the repository reported no such job, or two; its tests came in another layout,
                the same file is being sent at this moment, or not all of it was stored.
        """
        begun = self._begin(incoming, at)
        if isinstance(begun, Receipt):
            return begun
        if incoming.kind == "test_run_summary":
            return self._take(incoming, begun, summaries=cast("Iterable[TestRunSummary]", rows))
        tests = stored_rows(cast("Iterable[TestRun]", rows), begun.job, upload=begun.number)
        return self._take(incoming, begun, tests)

    def take_stored(
        self, incoming: Incoming, rows: Callable[[int], Iterable[StoredRow]], *, at: float
    ) -> Receipt:
        """Store rows that are made here.

        Args:
            incoming: as if they were a file.
            rows: made for the number of their upload.
            at: seconds since the epoch.

        Raises:
            UploadRefusedError: see `take`.
        """
        begun = self._begin(incoming, at)
        if isinstance(begun, Receipt):
            return begun
        return self._take(incoming, begun, rows(begun.number))

    def _take(
        self,
        incoming: Incoming,
        begun: _Begun,
        tests: Iterable[StoredRow] = (),
        *,
        summaries: Iterable[TestRunSummary] | None = None,
    ) -> Receipt:
        totals = Totals()
        try:
            self._rows.begin(begun.number)
            if summaries is None:
                self._insert(tests, begun, totals)
            else:
                totals = summary_totals(summaries)
            return self._finish(incoming, begun, totals)
        except BaseException:
            self._take_back(begun.job, begun.number)
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
        kind = incoming.kind
        with self._store.transaction() as connection:
            job = _stored_job(connection, incoming)
            others = _uploads(connection, job)
            full = _layouts(others)
            if kind in FULL and full - {kind}:
                raise _other_layout(full)
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
        return _Begun(job=job, number=int(number or 0), stale=tuple(one["id"] for one in [*partial, *same]))

    def _insert(self, rows: Iterable[StoredRow], begun: _Begun, totals: Totals) -> None:
        into = self._rows
        stored = rows if into.counts_anew else counted(rows, totals)
        # The next rows are read while the last ones are stored.
        with ThreadPoolExecutor(1, thread_name_prefix="upload") as pool:
            storing: Future[None] | None = None
            for chunk in chunks(
                stored, into.pack, most_rows=into.chunk_rows, most_characters=MOST_CHARACTERS
            ):
                if storing is not None:
                    storing.result()
                self._check_current(begun.number)
                totals.rows += chunk.rows
                if totals.rows > MOST_ROWS:
                    raise UploadRefusedError(413, f"more than {MOST_ROWS} tests in a file: send it in parts")
                storing = pool.submit(into.insert, chunk.pieces)
            if storing is not None:
                storing.result()

    def _finish(self, incoming: Incoming, begun: _Begun, totals: Totals) -> Receipt:
        summary = incoming.kind == "test_run_summary"
        if incoming.rows not in {None, totals.rows}:
            raise UploadRefusedError(
                400, f"{incoming.rows} rows were said to be sent, and the file has {totals.rows}"
            )
        stored = totals.rows if summary else self._rows.count(begun.job, begun.number)
        if stored != totals.rows:
            raise UploadRefusedError(
                500, f"{totals.rows} rows were sent and {stored} are stored; send it again"
            )
        self._check_current(begun.number)
        with self._finishing:
            if self._rows.counts_anew:
                with self._store.transaction() as connection:
                    begun = _beside_others(connection, incoming.kind, begun)
                # Elsewhere than the list of uploads, and too slow to hold up callbacks.
                self._replace(incoming.kind, begun, totals)
            with self._store.transaction() as connection:
                begun = _beside_others(connection, incoming.kind, begun)
                gone = [(number,) for number in begun.stale]
                connection.executemany("DELETE FROM upload WHERE id = ?", gone)
                told = (totals.rows, stored, begun.number)
                if not connection.execute(_DONE, told).rowcount:
                    raise UploadRefusedError(409, SENT_AGAIN)
                if not self._rows.counts_anew:
                    self._replace(incoming.kind, begun, totals)
        return Receipt(sent=totals.rows, stored=stored)

    def _replace(self, kind: UploadKind, begun: _Begun, totals: Totals) -> None:
        for number in begun.stale:
            self._rows.remove(begun.job, number)
        self._rows.settle(begun.number)
        self._count(kind, begun, totals)

    def _count(self, kind: UploadKind, begun: _Begun, totals: Totals) -> None:
        """Bring the job's counts up to date; failed rows alone make none, as they say not how many passed."""
        again = bool(begun.stale)
        if kind == "test_run_summary":
            if again:
                self._rows.forget_counts(begun.job)
            self._rows.add_totals(begun.job, totals)
        elif kind in FULL:
            if again or self._rows.counts_anew:
                self._rows.recount(begun.job)
            else:
                self._rows.add_totals(begun.job, totals)

    def _check_current(self, number: int) -> None:
        with self._store.transaction() as connection:
            if connection.execute("SELECT 1 FROM upload WHERE id = ?", (number,)).fetchone() is None:
                raise UploadRefusedError(409, SENT_AGAIN)

    def _take_back(self, job: Job, number: int) -> None:
        self._rows.remove(job, number)
        self._rows.settle(number)
        with self._store.transaction() as connection:
            connection.execute("DELETE FROM upload WHERE id = ?", (number,))
            kinds = {one["kind"] for one in _uploads(connection, job) if one["done"]}
        if not self._rows.counts_anew:
            return
        # They may have been counted already, where the end came after that.
        if kinds & {*FULL}:
            self._rows.recount(job)
        elif "test_run_summary" not in kinds:
            self._rows.forget_counts(job)


def _stored_job(connection: sqlite3.Connection, incoming: Incoming) -> Job:
    """The job of a file, as the tables name it: its sender can name jobs of its own repository only."""
    run, attempt, number = incoming.job.numbers()
    found = connection.execute(
        "SELECT DISTINCT job_id, workflow_name, job_name FROM crcr_workflow_job "
        # As the sender's rows name it, or as our own answers do.
        "WHERE job_id IN (?, ?) AND run_id = ? AND run_attempt = ? AND downstream_repo = ?",
        (
            stored_number(number, repository=incoming.repository),
            number,
            str(run),
            attempt,
            incoming.repository,
        ),
    ).fetchall()
    if not found:
        told = f"{incoming.repository} reported no such job; send its callback first"
        raise UploadRefusedError(404, told)
    if len(found) > 1:
        names = ", ".join(sorted(f"{workflow} / {job}" for _, workflow, job in found))
        told = f"{len(found)} jobs have this run, attempt and check run: {names}"
        raise UploadRefusedError(409, f"{told}; give each a check run of its own")
    return Job(workflow_id=run, workflow_run_attempt=attempt, job_id=found[0][0])


def _layouts(uploads: Iterable[Mapping[str, Any]]) -> set[UploadKind]:
    """In which layouts a job's tests are here in full; a file without any says nothing of it."""
    return {one["kind"] for one in uploads if one["kind"] in FULL and one["done"] and one["stored"]}


def _other_layout(full: Iterable[str]) -> UploadRefusedError:
    told = f"the job's tests came as {', '.join(sorted(full))}; send them in one layout only"
    return UploadRefusedError(409, told)


def _beside_others(connection: sqlite3.Connection, kind: UploadKind, begun: _Begun) -> _Begun:
    """An upload beside those that became whole while it was on its way.

    Raises:
        UploadRefusedError: one of another layout is there by now.
    """
    others = [one for one in _uploads(connection, begun.job) if one["id"] != begun.number and one["done"]]
    if full := _layouts(others) - {kind}:
        raise _other_layout(full)
    if kind not in FULL:
        return begun
    partial = {one["id"] for one in others if one["kind"] not in FULL}
    return replace(begun, stale=tuple(sorted({*begun.stale, *partial})))


def _uploads(connection: sqlite3.Connection, job: Job) -> list[dict[str, Any]]:
    found = connection.execute(_LISTED, job.numbers())
    names = [column[0] for column in found.description]
    return [dict(zip(names, one, strict=True)) for one in found]
