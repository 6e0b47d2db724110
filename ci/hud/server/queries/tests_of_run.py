"""The tests and files of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ci.hud.server.database import Database, Row, Value
from ci.hud.server.queries.failures import job_values
from ci.hud.server.queries.far import by_time, by_verdict
from ci.hud.server.queries.marks import OF_JOB

# After so many left out, what is sorted is narrower than rows.
FAR = 10_000
_COLUMNS = "test_id, test_key, place, file, verdict, cause, card, time, attempts, message"
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
    more = "".join(f" AND {name} = :{name}" for name in ("verdict", "file", "card") if values[name])
    (count,) = database.rows(f"SELECT count(*) AS number FROM settled_test_run WHERE {OF_JOB}{more}", values)  # noqa: S608
    total = int(count["number"])
    # A file's or a card's tests are not in the narrow index of times, and they are fewer.
    far = offset >= FAR and not (order == "time" and (file or card))
    rows = _page(database, more, values, total=total, limit=limit, offset=offset, order=order, far=far)
    return total, [
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


def _page(
    database: Database,
    more: str,
    values: Mapping[str, Value],
    *,
    total: int,
    limit: int,
    offset: int,
    order: str,
    far: bool,
) -> Sequence[Row]:
    if far and order == "verdict":
        return by_verdict(database, more, values, _COLUMNS, total=total, limit=limit, offset=offset)
    if far:
        return by_time(database, more, values, _COLUMNS, limit=limit, offset=offset)
    return database.rows(
        f"SELECT {_COLUMNS} FROM settled_test_run WHERE {OF_JOB}{more} "  # noqa: S608  # our names
        f"ORDER BY {ORDERS[order]} LIMIT :limit OFFSET :offset",
        {**values, "limit": limit, "offset": offset},
    )


def files_of_run(database: Database, job: Mapping[str, Value], *, limit: int) -> list[FileRow]:
    """The files of a run, the slowest first."""
    rows = database.rows(
        f"""
        SELECT file, sum(tests) AS all_tests, sum(failures + errors) AS all_failed,
            sum(skipped) AS all_skipped, sum(successes) AS all_passed, sum(time) AS all_seconds
        FROM test_run_summary WHERE {OF_JOB} GROUP BY file ORDER BY all_seconds DESC, file LIMIT :limit
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
