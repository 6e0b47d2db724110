"""A run written into the store of results: its job, its tests and what its files took to set up.

Pages and planning read the same rows. The same run again replaces what it wrote before (law 6).
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ci.core.errors import BadFileError, SpyreCiError
from ci.core.text import one_line
from ci.hud.callback import Callback, explain
from ci.hud.dispatched import kept as kept_dispatch
from ci.hud.outbox import Outbox
from ci.hud.payload import CHECK_RUN_VARIABLE, SUMMARY, Ways, ended_of
from ci.record.journal import gathered_journals
from ci.record.result import Result
from ci.record.run_state import replay
from ci.record.verdict import Verdict
from ci.report.history import DAY_S, told
from ci.report.junit_writer import split_id
from ci.report.op_maps import keep_op_map
from ci.report.results import RESULTS_FILE, read_results, read_summary
from ci.store.identity import job_number, key_of_test, stored, stored_number
from ci.store.rows import MESSAGE_CHARACTERS, Job, invoking_file
from test_selection.durations import MAX_S
from test_selection.files import read_json
from test_selection.op_map import FILE as OP_MAP
from test_selection.op_map import OpMap, read_op_map

if TYPE_CHECKING:
    from ci.report.store import Kept
    from ci.store.row_values import StoredRow

# As a client names the file of rows that it sends of a run: whichever comes later takes the other's place.
ROWS = "rows"
_OF_JOB = "workflow_id = ? AND workflow_run_attempt = ? AND job_id = ?"
# One that was cut off is left out.
_TESTS = f"SELECT 1 FROM upload WHERE {_OF_JOB} AND state = 'DONE'"  # noqa: S608  # our own words, here and below
_MOST = 2**63 - 1
_SETUP = "INSERT INTO file_setup VALUES (?, ?, ?, ?, ?)"
_NO_SETUPS = f"DELETE FROM file_setup WHERE {_OF_JOB}"  # noqa: S608


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRun:
    """A run as its report tells of it.

    Attributes:
        summary: the content of its `summary.json`.
        results: every planned test's verdict.
        setups: by file, the seconds of each time it was set up; the median is kept.
        where: the summary's file, for errors.
        op_map: what its tests called; None where that was not traced.
    """

    summary: Mapping[str, Any]
    results: Sequence[Result]
    setups: Mapping[str, Sequence[float]]
    where: Path
    op_map: OpMap | None = None


def record_run(kept: Kept, run: ReportedRun, *, repository: str, at: float, ways: Ways | None = None) -> None:
    """Write a run into a store.

    Args:
        kept: the store.
        run: what is written.
        repository: owner/name it is reported for.
        at: now, in seconds since the epoch.
        ways: how it is reported; None: by itself.

    Raises:
        BadFileError: the summary does not say who the run is, or a value is none that a run can have.
        SpyreCiError: the store cannot be written.
    """
    from ci.hud.server.record import row_of  # noqa: PLC0415
    from ci.store.uploads import Incoming, UploadRefusedError, Uploads  # noqa: PLC0415

    # What HUD's contract has no field for is for this store as well.
    ways = replace(ways or Ways(environ={}), own_server=True)
    payload = ended_of(run.summary, ways, path=run.where)
    try:
        callback = Callback.model_validate(payload)
    except ValidationError as error:
        raise _not_of_a_run(run.where, explain(error.errors()[0])) from error
    workflow = callback.workflow
    number = job_number(workflow.check_run_id, repository=repository)
    job = Job(workflow_id=workflow.run_id, workflow_run_attempt=workflow.run_attempt, job_id=number)
    own = Job(
        workflow_id=job.workflow_id,
        workflow_run_attempt=job.workflow_run_attempt,
        job_id=stored_number(number, repository=repository),
    )
    row, said = row_of(payload, repository=repository, level="")
    detail = {**(said or {}), "checkout": str(run.summary["identity"].get("commit", ""))}
    incoming = Incoming(
        repository=repository,
        job=job,
        kind="test_run",
        name=ROWS,
        sha256=_digest(run.results),
        rows=len(run.results),
    )
    medians = [(stored(file), statistics.median(times)) for file, times in run.setups.items() if times]
    with told(kept.store.path):
        try:
            kept.store.put(row, detail, at=at)
            Uploads(kept.store, kept.rows).take_stored(
                incoming, lambda job, upload: stored_results(run.results, job, upload), at=at
            )
        except UploadRefusedError as error:
            raise SpyreCiError(
                f"the run's tests were not accepted: {error}", where=kept.store.path, remedy="report it again"
            ) from error
        with kept.store.transaction() as connection:
            connection.execute(_NO_SETUPS, own.numbers())
            connection.executemany(_SETUP, ((*own.numbers(), *one) for one in medians))
            if run.op_map is not None:
                keep_op_map(connection, run.op_map, at=at)


def stored_results(results: Sequence[Result], job: Job, upload: int) -> Iterator[StoredRow]:
    """The rows of results; an outcome has the element that JUnit gives it."""
    from ci.store.row_values import StoredRow  # noqa: PLC0415

    run, attempt, number = job.numbers()
    for one in results:
        owner, name = split_id(one.id, one.file)
        message = _safe(one_line(one.message))[:MESSAGE_CHARACTERS]
        element = _element_of(one)
        said = json.dumps({"message": message or one.verdict.words}) if element else ""
        yield StoredRow(
            workflow_id=run,
            workflow_run_attempt=attempt,
            job_id=number,
            invoking_file=_safe(invoking_file(one.file)),
            file=_safe(one.file),
            classname=_safe(owner or one.file),
            name=_safe(name),
            time=one.seconds,
            test_id=_safe(one.id),
            test_key=key_of_test(one.id),
            verdict=one.verdict.value,
            upload_id=upload,
            cause=one.cause or "",
            card=_safe(one.card or ""),
            attempts=max(1, one.attempts),
            message=message,
            failure=said if element == "failure" else "",
            error=said if element == "error" else "",
            skipped=said if element == "skipped" else "",
            rerun=said if element == "rerun" else "",
        )


def _safe(text: str) -> str:
    """Text that a table can hold: half of a surrogate pair, which no UTF-8 has, as Python writes it."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _element_of(result: Result) -> str:
    """The column of the outcome; a failure in quarantine reddens nothing, so it counts as a skip."""
    match result.verdict:
        case Verdict.FAILED:
            return "skipped" if result.forgiven else "failure"
        case Verdict.HARDWARE | Verdict.INFRASTRUCTURE | Verdict.NOT_RUN:
            return "error"
        case Verdict.SKIPPED | Verdict.XFAILED:
            return "skipped"
        case Verdict.FLAKY:
            return "rerun"
        case _:
            return ""


def _digest(results: Sequence[Result]) -> str:
    said = hashlib.sha256()
    for one in results:
        said.update(
            f"{one.id}\n{one.verdict}\n{one.seconds}\n{one.card}\n{one.attempts}\n{one.message}\n".encode(
                "utf-8", "surrogatepass"
            )
        )
    return said.hexdigest()


def take_report(
    payload: Mapping[str, Any], kept: Kept, run_dir: Path, *, repository: str, at: float, ways: Ways
) -> None:
    """Write a callback into the store, with the run's tests where it ended and they are not there.

    Args:
        payload: the callback's body.
        kept: the store.
        run_dir: the run's folder.
        repository: owner/name it is reported for.
        at: now, in seconds since the epoch.
        ways: how the run is reported.

    Raises:
        SpyreCiError: the store cannot be written, or the run's files are not what they have to be.
    """
    from ci.hud.server.record import row_of  # noqa: PLC0415

    row, detail = row_of(payload, repository=repository, level="")
    with told(kept.store.path):
        kept.store.put(row, detail, at=at)
        with kept.store.transaction() as connection:
            numbers = (int(row["run_id"]), row["run_attempt"], row["job_id"])
            there = connection.execute(_TESTS, numbers).fetchone()
    if payload["workflow"]["status"] == "completed" and not there and (run_dir / RESULTS_FILE).is_file():
        record_run(kept, read_run(run_dir, now=at), repository=repository, at=at, ways=ways)


def read_run(folder: Path, *, now: float, run: str = "", lane: str = "") -> ReportedRun:
    """Read a run that was reported elsewhere.

    Where its journals came along, what its files took to set up is read as well.

    Args:
        folder: of the run, with its summary and results.
        now: seconds since the epoch.
        run: what it is to be known by; empty: as its report has it.
        lane: it was begun for; empty: as its report has it.

    Raises:
        MissingInputError: there is no summary, or there are no results.
        BadFileError: one of them has the wrong form.
    """
    path = folder / SUMMARY
    identity = read_summary(path).identity
    if not 0 <= identity.started_at <= now + DAY_S:
        # Of a later run than all that come, no plan would ever get rid.
        raise _not_of_a_run(path, f"started_at is out of range: {identity.started_at!r:.40}")
    summary = dict(read_json(path, "summary"))
    named = {"run": run or identity.run, "lane": lane or identity.lane}
    summary |= {"run": named["run"], "identity": {**summary["identity"], **named}}
    results = read_results(folder / RESULTS_FILE)
    seen: set[str] = set()
    for number, one in enumerate(results, start=2):
        if one.id in seen or not (0 <= one.attempts <= _MOST and 0 <= one.seconds < MAX_S):
            said = f"{one.id!r:.80}, {one.seconds!r:.40} s, attempts {one.attempts!r:.40}"
            wrong = "listed twice" if one.id in seen else "out of range"
            raise _not_of_a_run(f"{folder / RESULTS_FILE}:{number}", f"a result is {wrong}: {said}")
        seen.add(one.id)
    setups: dict[str, list[float]] = {}
    for journal in gathered_journals(folder):
        for group in replay(journal.shard, journal.attempt, journal.events).groups:
            if group.setup_s is not None and group.setup_s < MAX_S:
                setups.setdefault(group.file, []).append(group.setup_s)
    op_map = read_op_map(traced) if (traced := folder / OP_MAP).is_file() else None
    return ReportedRun(summary=summary, results=results, setups=setups, where=path, op_map=op_map)


def ways_of(folder: Path, *, now: float) -> Ways:
    """How the run of a folder was reported, so that it is the same job where it is taken in (law 6).

    Args:
        folder: of the run.
        now: seconds since the epoch.

    Raises:
        BadFileError: its dispatch is none.
    """
    ends = Outbox(folder, lambda: now).ends()
    end = ends[-1].payload["workflow"] if ends else {}
    return Ways(
        environ={CHECK_RUN_VARIABLE: str(end.get("check_run_id", ""))},
        dispatch=kept_dispatch(folder),
        job_name=str(end.get("job_name", "")),
    )


def _not_of_a_run(where: Path | str, what: str) -> BadFileError:
    return BadFileError(what, where=where, remedy="report the run again with `spyre-ci report`")
