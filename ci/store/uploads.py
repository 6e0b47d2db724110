"""Taking files of rows: idempotent by content, whole or not at all, and counted after they are stored."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from ci.store.database import StoreUnavailableError
from ci.store.identity import stored_number
from ci.store.row_store import RowStore
from ci.store.row_values import StoredRow, Totals, chunks, counted, stored_rows
from ci.store.rows import Job, TestRun
from ci.store.store import Store

UploadKind = Literal["junit", "test_run"]
ABANDONED_S = 3600.0
# Of one file; a few kilobytes, unpacked, may hold as many test cases as take minutes to store.
MOST_ROWS = 5_000_000
# Two pieces are in memory, one read and one stored.
MOST_CHARACTERS = 16 * 1024 * 1024
_ENTER = """
INSERT INTO upload (workflow_id, workflow_run_attempt, job_id, kind, name, sha256, state, at)
VALUES (?, ?, ?, ?, ?, ?, 'COMING', ?)
"""
# Where one of its name came later, that one counts.
_CURRENT = """
SELECT count(*) FROM upload AS u WHERE u.id = ? AND u.state = 'COMING' AND NOT EXISTS (
    SELECT 1 FROM upload AS later WHERE later.id > u.id AND later.workflow_id = u.workflow_id
        AND later.workflow_run_attempt = u.workflow_run_attempt AND later.job_id = u.job_id
        AND later.kind = u.kind AND later.name = u.name)
"""
_DONE = "UPDATE upload SET sent = ?, stored = ?, state = 'DONE' WHERE id = ?"
_GOING = "UPDATE upload SET state = 'GOING' WHERE id = ?"
SENT_AGAIN = "another upload took its place meanwhile, or its job was pruned"
_LISTED = """
SELECT id, kind, name, sha256, sent, stored, state FROM upload
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
    """An upload under way: its number, and whose rows it holds, as the tables name the job."""

    job: Job
    number: int


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

    def take(self, incoming: Incoming, rows: Iterable[TestRun], *, at: float) -> Receipt:
        """Store a file's rows.

        Args:
            incoming: which file.
            rows: read from it; what it raises takes back what was stored of them.
            at: seconds since the epoch.

        Raises:
            UploadRefusedError: the repository reported no such job, or two; its tests came in another layout,
                the same file is being sent at this moment, or not all of it was stored.
        """
        return self.take_stored(incoming, lambda job, upload: stored_rows(rows, job, upload=upload), at=at)

    def take_stored(
        self, incoming: Incoming, rows: Callable[[Job, int], Iterable[StoredRow]], *, at: float
    ) -> Receipt:
        """Store rows that are made here.

        Args:
            incoming: as if they were a file.
            rows: made for the job as the tables name it, and the number of their upload.
            at: seconds since the epoch.

        Raises:
            UploadRefusedError: see `take`.
        """
        begun = self._begin(incoming, at)
        if isinstance(begun, Receipt):
            return begun
        return self._write(incoming, begun, rows(begun.job, begun.number))

    def clean(self, *, at: float) -> int:
        """Take away what is going, and what uploads left that ended in the middle an hour ago or longer.

        Args:
            at: seconds since the epoch.

        Returns:
            How many uploads that were.
        """
        with self._store.transaction() as connection:
            connection.execute(
                "UPDATE upload SET state = 'GOING' WHERE state = 'COMING' AND at < ?", (at - ABANDONED_S,)
            )
            found = connection.execute(
                "SELECT workflow_id, workflow_run_attempt, job_id, id FROM upload WHERE state = 'GOING'"
            ).fetchall()
        going: dict[tuple[int, int, int], list[int]] = {}
        for *numbers, upload in found:
            going.setdefault((numbers[0], numbers[1], numbers[2]), []).append(upload)
        for (run, attempt, job_id), uploads in going.items():
            job = Job(workflow_id=run, workflow_run_attempt=attempt, job_id=job_id)
            self._settle(job)
            self._remove(job, uploads)
        return len(found)

    def _begin(self, incoming: Incoming, at: float) -> Receipt | _Begun:
        """Note that the file is being taken; a receipt where there is nothing to take."""
        with self._store.transaction() as connection:
            job = _stored_job(connection, incoming)
            for one in _same_name(connection, incoming, job):
                if one["sha256"] == incoming.sha256:
                    return Receipt(sent=one["sent"], stored=one["stored"], unchanged="the same file is here")
            values = (*job.numbers(), incoming.kind, incoming.name, incoming.sha256, at)
            number = connection.execute(_ENTER, values).lastrowid
        return _Begun(job=job, number=int(number or 0))

    def _write(self, incoming: Incoming, begun: _Begun, tests: Iterable[StoredRow]) -> Receipt:
        totals = Totals()
        try:
            self._rows.hide([begun.number])
            self._insert(tests, begun, totals)
            receipt, replaced = self._finish(incoming, begun, totals)
        except BaseException:
            self._take_back(begun)
            raise
        # Nobody sees them any more; where this fails, `clean` takes them away.
        with contextlib.suppress(StoreUnavailableError, sqlite3.Error):
            self._remove(begun.job, replaced)
        return receipt

    def _insert(self, rows: Iterable[StoredRow], begun: _Begun, totals: Totals) -> None:
        into = self._rows
        stored = rows if into.remote else counted(rows, totals)
        # The next rows are read while the last ones are stored.
        with ThreadPoolExecutor(1, thread_name_prefix="upload") as pool:
            storing: Future[None] | None = None
            for number, pieces in chunks(
                stored, into.pack, most_rows=into.chunk_rows, most_characters=MOST_CHARACTERS
            ):
                if storing is not None:
                    storing.result()
                self._check_current(begun.number)
                totals.rows += number
                if totals.rows > MOST_ROWS:
                    raise UploadRefusedError(413, f"more than {MOST_ROWS} tests in a file: send it in parts")
                storing = pool.submit(into.insert, pieces)
            if storing is not None:
                storing.result()

    def _finish(self, incoming: Incoming, begun: _Begun, totals: Totals) -> tuple[Receipt, Sequence[int]]:
        """Let a file's rows be seen and counted; the uploads whose place it took are going."""
        if incoming.rows not in {None, totals.rows}:
            raise UploadRefusedError(
                400, f"{incoming.rows} rows were announced, and the file has {totals.rows}"
            )
        stored = self._rows.count(begun.job, begun.number)
        if stored != totals.rows:
            # Rows of one whose job was pruned meanwhile are being taken away: no fault of the store.
            self._check_current(begun.number)
            raise UploadRefusedError(
                500, f"{totals.rows} rows were sent and {stored} are stored; send it again"
            )
        with self._finishing:
            self._check_current(begun.number)
            if self._rows.remote:
                # First, and too slow to hold up callbacks: until the list says so too, it can be taken back.
                with self._store.transaction() as connection:
                    replaced = [one["id"] for one in _same_name(connection, incoming, begun.job)]
                    cut_off = _cut_off(connection, incoming, begun)
                self._rows.hide([*replaced, *cut_off])
                self._rows.show([begun.number])
                self._rows.recount(begun.job)
            with self._store.transaction() as connection:
                self._check_current(begun.number)
                replaced = [one["id"] for one in _same_name(connection, incoming, begun.job)]
                connection.executemany(_GOING, [(number,) for number in replaced])
                connection.execute(_DONE, (totals.rows, stored, begun.number))
                if not self._rows.remote:
                    self._rows.recount(begun.job, None if replaced else totals)
        return Receipt(sent=totals.rows, stored=stored), replaced

    def _check_current(self, number: int) -> None:
        with self._store.transaction() as connection:
            if not connection.execute(_CURRENT, (number,)).fetchone()[0]:
                raise UploadRefusedError(409, SENT_AGAIN)

    def _take_back(self, begun: _Begun) -> None:
        with self._store.transaction() as connection:
            connection.execute(_GOING, (begun.number,))
        if self._rows.remote:
            # They may be seen and counted already, where the end came after that.
            self._settle(begun.job)
        self._remove(begun.job, [begun.number])

    def _settle(self, job: Job) -> None:
        """Make what is seen and counted of a job's rows what the list of uploads says."""
        # One that is done after it was listed would be hidden for good.
        with self._finishing:
            with self._store.transaction() as connection:
                listed = _uploads(connection, job)
            self._rows.hide(one["id"] for one in listed if one["state"] != "DONE")
            self._rows.show(one["id"] for one in listed if one["state"] == "DONE")
            self._rows.recount(job)

    def _remove(self, job: Job, uploads: Sequence[int]) -> None:
        """Take away uploads that are not seen, with their rows."""
        for number in uploads:
            self._rows.remove(job, number)
            with self._store.transaction() as connection:
                connection.execute("DELETE FROM upload WHERE id = ?", (number,))
        self._rows.show(uploads)


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
        raise UploadRefusedError(409, f"{told}; give each its own check run")
    return Job(workflow_id=run, workflow_run_attempt=attempt, job_id=found[0][0])


def _same_name(connection: sqlite3.Connection, incoming: Incoming, job: Job) -> list[dict[str, Any]]:
    """The upload whose place a file takes, where there is one.

    Raises:
        UploadRefusedError: the job's tests came in another layout.
    """
    done = [one for one in _uploads(connection, job) if one["state"] == "DONE"]
    # A file without any test says nothing of the layout.
    if others := sorted({one["kind"] for one in done if one["stored"]} - {incoming.kind}):
        told = f"the job's tests came as {', '.join(others)}; send them in one layout only"
        raise UploadRefusedError(409, told)
    return [one for one in done if (one["kind"], one["name"]) == (incoming.kind, incoming.name)]


def _cut_off(connection: sqlite3.Connection, incoming: Incoming, begun: _Begun) -> list[int]:
    """Uploads of a file that came before and can never be done any more.

    One whose process was killed just before the list said so may be seen, and be counted beside this one.
    """
    return [
        one["id"]
        for one in _uploads(connection, begun.job)
        if (one["kind"], one["name"]) == (incoming.kind, incoming.name)
        and one["state"] == "COMING"
        and one["id"] < begun.number
    ]


def _uploads(connection: sqlite3.Connection, job: Job) -> list[dict[str, Any]]:
    found = connection.execute(_LISTED, job.numbers())
    names = [column[0] for column in found.description]
    return [dict(zip(names, one, strict=True)) for one in found]
