"""The tests and files of one run; a page far down comes without sorting what is wide of all before it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from ci.hud.server.queries.rows import OF_JOB, OF_JOB_BY_KEY, KeyText, job_values, listed, records
from ci.store.database import Database, Value

# After so many left out, what is sorted is narrower than rows.
FAR = 10_000
ORDERS = {"verdict": "verdict, test_id, place", "time": "time DESC, test_id, place"}
_KEYED = "verdict, test_id, place, test_key"
# One test in so many is in a sample, which has to have some hundreds; its places are right within a share.
_EVERY, _LEAST_SAMPLE, _MARGIN = 199, 200, 0.08
# What _KEYED names, of each test.
_Keys = Sequence[tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TestRow:
    """A test of a run; the key is a whole number as text, too long for JavaScript's."""

    __test__ = False  # the name is HUD's; pytest shall not take it for a test class

    test_id: str
    test_key: KeyText
    place: int
    file: str
    verdict: str
    cause: str
    card: str
    seconds: Annotated[float, "time"]
    attempts: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """A file's tests of a run; seconds of its tests one after the other."""

    file: str
    tests: Annotated[int, "sum(tests)"]
    failed: Annotated[int, "sum(failures + errors)"]
    skipped: Annotated[int, "sum(skipped)"]
    passed: Annotated[int, "sum(successes)"]
    seconds: Annotated[float, "sum(time)"]


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
    tests = _Tests(database, more, values)
    ((total,),) = tests.columns("count(*)", "")
    number = max(0, min(limit, total - offset))
    # A file's or a card's tests are not in the narrow index of times, and they are fewer.
    if offset < FAR or (order == "time" and (file or card)):
        ordered = f"ORDER BY {ORDERS[order]} LIMIT :limit OFFSET :offset"
        return total, tests.rows(ordered, limit=number, offset=offset)
    if order == "time":
        return total, _by_time(tests, number=number, offset=offset)
    return total, _by_verdict(tests, total=total, number=number, offset=offset)


@dataclass(frozen=True, slots=True)
class _Tests:
    """The tests of a job: `more` conditions besides, each after ` AND `, and what all of them bind."""

    database: Database
    more: str
    values: Mapping[str, Value]

    def rows(self, rest: str, of_job: str = OF_JOB, **values: Value) -> list[TestRow]:
        """Those of a query that ends so."""
        source = f"FROM settled_test_run WHERE {of_job}{self.more} {rest}"
        return records(self.database, TestRow, source, {**self.values, **values})

    def columns(self, columns: str, rest: str, **values: Value) -> _Keys:
        """The same, some columns alone."""
        query = f"SELECT {columns} FROM settled_test_run WHERE {OF_JOB}{self.more} {rest}"  # noqa: S608  # our names
        return self.database.tuples(query, {**self.values, **values})


def _by_time(tests: _Tests, *, number: int, offset: int) -> list[TestRow]:
    """The slowest first: only the times are read of all tests, then the rows of the page's times."""
    order = sorted([-took for (took,) in tests.columns("time", "")])
    page = order[offset : offset + number]
    if not page:
        return []
    return tests.rows(
        f"AND time <= :slowest AND time >= :fastest ORDER BY {ORDERS['time']} LIMIT :limit OFFSET :offset",
        slowest=-page[0],
        fastest=-page[-1],
        limit=number,
        offset=offset - bisect_left(order, page[0]),
    )


def _by_verdict(tests: _Tests, *, total: int, number: int, offset: int) -> list[TestRow]:
    """Those of a page in the order of verdicts, ids and places.

    Only the keys of the order are sorted, and of them those near the page where a sample finds it; then the
    page's rows are looked up.
    """
    if not number:
        return []
    page = _near(tests, total=total, number=number, offset=offset)
    if len(page) < number:
        page = _sorted(tests, total=total, number=number, offset=offset)
    keys = listed(key for *_, key in page)
    if not keys:
        return []
    rows = tests.rows(f"AND test_key IN ({keys}) ORDER BY {ORDERS['verdict']}", OF_JOB_BY_KEY)
    # A test that files tell of twice may be on other pages too.
    places = sorted((verdict, test_id, place) for verdict, test_id, place, _ in page)
    found = [row for row in rows if _place(row) >= places[0]]
    # Those of the first that the page before has.
    start = sum(_place(row) == places[0] for row in found) - places.count(places[0])
    return found[start : start + len(places)]


def _place(row: TestRow) -> tuple[str, str, int]:
    return row.verdict, row.test_id, row.place


def _sorted(tests: _Tests, *, total: int, number: int, offset: int) -> _Keys:
    """The keys of a page, all of them sorted from the nearer end."""
    after = total - offset - number
    back = after < offset
    order = "verdict DESC, test_id DESC, place DESC" if back else ORDERS["verdict"]
    return tests.columns(
        _KEYED,
        f"ORDER BY {order} LIMIT :limit OFFSET :offset",
        limit=number,
        offset=after if back else offset,
    )


def _near(tests: _Tests, *, total: int, number: int, offset: int) -> _Keys:
    """The keys of a page, those sorted that stand near it; fewer than `number` where the sample misled."""
    # Keys of tests are hashes, so any remainder of them is a fair sample.
    sample = tests.columns("verdict, test_id", f"AND test_key % {_EVERY} = 0 ORDER BY verdict, test_id")
    if len(sample) < _LEAST_SAMPLE:
        return ()
    margin = _MARGIN * len(sample)
    low = sample[max(0, int(len(sample) * offset / total - margin))]
    high = sample[min(len(sample) - 1, int(len(sample) * (offset + number) / total + margin))]
    ends = {"low": low[0], "low_id": low[1], "high": high[0], "high_id": high[1]}
    ((before,),) = tests.columns(
        "count(*)", "AND verdict <= :low AND (verdict < :low OR test_id < :low_id)", **ends
    )
    if offset < before:
        return ()
    return tests.columns(
        _KEYED,
        "AND verdict >= :low AND verdict <= :high AND (verdict > :low OR test_id >= :low_id) "
        "AND (verdict < :high OR test_id <= :high_id) "
        f"ORDER BY {ORDERS['verdict']} LIMIT :limit OFFSET :offset",
        **ends,
        limit=number,
        offset=offset - before,
    )


def files_of_run(database: Database, job: Mapping[str, Value], *, limit: int) -> list[FileRow]:
    """The files of a run, the slowest first."""
    return records(
        database,
        FileRow,
        f"FROM test_run_summary WHERE {OF_JOB} GROUP BY file ORDER BY o_seconds DESC, file LIMIT :limit",
        {**job_values(job), "limit": limit},
    )
