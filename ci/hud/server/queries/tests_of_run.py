"""The tests and files of one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ci.hud.server.database import Database, Value
from ci.hud.server.queries.failures import job_values

_OF_JOB = "workflow_id = :workflow AND workflow_run_attempt = :attempt AND job_id = :job"
ORDERS = {"verdict": "verdict, test_id, place", "time": "time DESC, test_id, place"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TestRow:
    """A test of a run; the key is a whole number as text, too long for JavaScript's."""

    __test__ = False  # the name is HUD's; pytest shall not take it for a test class

    test_id: str
    test_key: str
    place: int
    file: str
    verdict: str
    cause: str
    card: str
    seconds: float
    attempts: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """A file's tests of a run; seconds of its tests one after the other."""

    file: str
    tests: int
    failed: int
    skipped: int
    passed: int
    seconds: float


def run_tests(
    database: Database,
    job: Mapping[str, Value],
    *,
    limit: int,
    offset: int = 0,
    verdict: str = "",
    file: str = "",
    card: str = "",
    order: str = "verdict",
) -> tuple[int, list[TestRow]]:
    """How many tests of a run there are, and a page of them.

    Args:
        database: what is asked.
        job: a row of `crcr_workflow_job_ranked`.
        limit: rows at most.
        offset: rows left out before.
        verdict: one of the nine; empty for all.
        file: of the tests; empty for all.
        card: of the tests; empty for all.
        order: `verdict` (problems come first) or `time` (the slowest come first).
    """
    values = {**job_values(job), "verdict": verdict, "file": file, "card": card}
    conditions = [_OF_JOB]
    conditions += [f"{name} = :{name}" for name in ("verdict", "file", "card") if values[name]]
    where = " AND ".join(conditions)
    (count,) = database.rows(f"SELECT count(*) AS number FROM test_run WHERE {where}", values)  # noqa: S608
    rows = database.rows(
        "SELECT test_id, test_key, place, file, verdict, cause, card, time, attempts, message "  # noqa: S608
        f"FROM test_run WHERE {where} ORDER BY {ORDERS[order]} LIMIT :limit OFFSET :offset",
        {**values, "limit": limit, "offset": offset},
    )
    return int(count["number"]), [
        TestRow(
            test_id=row["test_id"],
            test_key=str(row["test_key"]),
            place=row["place"],
            file=row["file"],
            verdict=row["verdict"],
            cause=row["cause"],
            card=row["card"],
            seconds=row["time"],
            attempts=row["attempts"],
            message=row["message"],
        )
        for row in rows
    ]


def files_of_run(database: Database, job: Mapping[str, Value], *, limit: int) -> list[FileRow]:
    """The files of a run, the slowest first."""
    rows = database.rows(
        f"""
        SELECT file, sum(tests) AS all_tests, sum(failures + errors) AS all_failed,
            sum(skipped) AS all_skipped, sum(successes) AS all_passed, sum(time) AS all_seconds
        FROM test_run_summary WHERE {_OF_JOB} GROUP BY file ORDER BY all_seconds DESC, file LIMIT :limit
        """,  # noqa: S608  # our names
        {**job_values(job), "limit": limit},
    )
    return [
        FileRow(
            file=row["file"],
            tests=row["all_tests"],
            failed=row["all_failed"],
            skipped=row["all_skipped"],
            passed=row["all_passed"],
            seconds=row["all_seconds"],
        )
        for row in rows
    ]
