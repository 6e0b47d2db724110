"""The tests and files of one run; a page far down comes without sorting what is wide of all before it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ci.hud.server.queries.failures import job_values
from ci.hud.server.queries.marks import OF_JOB, OF_JOB_BY_KEY
from ci.store.database import Database, Row, Value

# After so many left out, what is sorted is narrower than rows.
FAR = 10_000
_COLUMNS = "test_id, test_key, place, file, verdict, cause, card, time, attempts, message"
ORDERS = {"verdict": "verdict, test_id, place", "time": "time DESC, test_id, place"}
_Place = tuple[str, str, int]
# Verdict, id, place and key of a test.
_Keyed = tuple[Any, ...]
_KEYED = "verdict, test_id, place, test_key"
# One test in so many is in a sample, which has to have some hundreds; its places are right within a share.
_EVERY, _LEAST_SAMPLE, _MARGIN = 199, 200, 0.08


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
        return by_verdict(database, more, values, total=total, limit=limit, offset=offset)
    if far:
        return by_time(database, more, values, limit=limit, offset=offset)
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


def by_time(
    database: Database, more: str, values: Mapping[str, Value], *, limit: int, offset: int
) -> Sequence[Row]:
    """The tests of a job, the slowest first.

    Only the times are read of all of them, then the rows of the page's times.

    Args:
        database: what is asked.
        more: conditions besides those of the job, each after ` AND `.
        values: of the job, and of those conditions.
        limit: rows at most.
        offset: rows left out before.
    """
    times = database.tuples(f"SELECT time FROM settled_test_run WHERE {OF_JOB}{more}", values)  # noqa: S608  # our names
    order = sorted([-took for (took,) in times])
    page = order[offset : offset + limit]
    if not page:
        return []
    left_out = offset - bisect_left(order, page[0])
    return database.rows(
        f"SELECT {_COLUMNS} FROM settled_test_run WHERE {OF_JOB}{more} "  # noqa: S608  # our names
        "AND time <= :slowest AND time >= :fastest "
        "ORDER BY time DESC, test_id, place LIMIT :limit OFFSET :offset",
        {**values, "slowest": -page[0], "fastest": -page[-1], "limit": limit, "offset": left_out},
    )


def by_verdict(
    database: Database,
    more: str,
    values: Mapping[str, Value],
    *,
    total: int,
    limit: int,
    offset: int,
) -> Sequence[Row]:
    """The tests of a job, in the order of verdicts, ids and places.

    Only the keys of the order are sorted, and of them those near the page where a sample finds it; then the
    page's rows are looked up.

    Args:
        database: what is asked.
        more: conditions besides those of the job, each after ` AND `.
        values: of the job, and of those conditions.
        total: how many tests there are.
        limit: rows at most.
        offset: rows left out before.
    """
    number = min(limit, total - offset)
    if number <= 0:
        return []
    page = _near(database, more, values, total=total, number=number, offset=offset)
    if len(page) < number:
        page = _sorted(database, more, values, total=total, number=number, offset=offset)
    keys = ", ".join(sorted({str(int(key)) for *_, key in page}))
    if not keys:
        return []
    rows = database.rows(
        f"SELECT {_COLUMNS} FROM settled_test_run WHERE {OF_JOB_BY_KEY} AND test_key IN ({keys}){more} "  # noqa: S608
        "ORDER BY verdict, test_id, place",
        values,
    )
    return _cut(rows, sorted((verdict, test_id, place) for verdict, test_id, place, _ in page))


def _sorted(
    database: Database, more: str, values: Mapping[str, Value], *, total: int, number: int, offset: int
) -> Sequence[_Keyed]:
    """The keys of a page, all of them sorted from the nearer end."""
    after = total - offset - number
    back = after < offset
    order = "verdict DESC, test_id DESC, place DESC" if back else "verdict, test_id, place"
    return database.tuples(
        f"SELECT {_KEYED} FROM settled_test_run WHERE {OF_JOB}{more} "  # noqa: S608  # our names
        f"ORDER BY {order} LIMIT :limit OFFSET :offset",
        {**values, "limit": number, "offset": after if back else offset},
    )


def _near(
    database: Database, more: str, values: Mapping[str, Value], *, total: int, number: int, offset: int
) -> Sequence[_Keyed]:
    """The keys of a page, those sorted that stand near it; fewer than `number` where the sample misled."""
    # Keys of tests are hashes, so any remainder of them is a fair sample.
    sample = database.tuples(
        f"SELECT verdict, test_id FROM settled_test_run WHERE {OF_JOB}{more} "  # noqa: S608  # our names
        f"AND test_key % {_EVERY} = 0 ORDER BY verdict, test_id",
        values,
    )
    if len(sample) < _LEAST_SAMPLE:
        return ()
    margin = _MARGIN * len(sample)
    low = sample[max(0, int(len(sample) * offset / total - margin))]
    high = sample[min(len(sample) - 1, int(len(sample) * (offset + number) / total + margin))]
    ends = {"low": low[0], "low_id": low[1], "high": high[0], "high_id": high[1]}
    (before,) = database.tuples(
        f"SELECT count(*) FROM settled_test_run WHERE {OF_JOB}{more} "  # noqa: S608  # our names
        "AND verdict <= :low AND (verdict < :low OR test_id < :low_id)",
        {**values, **ends},
    )
    if offset < before[0]:
        return ()
    return database.tuples(
        f"SELECT {_KEYED} FROM settled_test_run WHERE {OF_JOB}{more} "  # noqa: S608  # our names
        "AND verdict >= :low AND verdict <= :high AND (verdict > :low OR test_id >= :low_id) "
        "AND (verdict < :high OR test_id <= :high_id) "
        "ORDER BY verdict, test_id, place LIMIT :limit OFFSET :offset",
        {**values, **ends, "limit": number, "offset": offset - before[0]},
    )


def _cut(rows: Sequence[Row], page: Sequence[_Place]) -> Sequence[Row]:
    """Of all rows of a page's tests those on it: a test that files tell of twice may be on others."""
    found = [row for row in rows if _place(row) >= page[0]]
    # Those of the first that the page before has.
    start = sum(_place(row) == page[0] for row in found) - page.count(page[0])
    return found[start : start + len(page)]


def _place(row: Row) -> _Place:
    return row["verdict"], row["test_id"], row["place"]
