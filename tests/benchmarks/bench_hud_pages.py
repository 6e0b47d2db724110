"""Every query of every page and route, on a store of so many rows of tests: SQLite's, and ClickHouse's.

The store is made up by the tests' seeder: ninety days of three back ends, and two runs of LARGE tests each,
which are compared, and read far down. Each page is opened as a browser
does, and each of its queries is timed where it is asked; the slowest of each page is told.
"""

from __future__ import annotations

import html
import random
import re
import sqlite3
import statistics
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import httpx

from ci.hud.server.app import create_app
from ci.hud.server.queries.compare import KINDS
from ci.hud.server.serve import embedded
from ci.store.clickhouse import Clickhouse
from ci.store.database import Database, Row, SqliteDatabase, Value
from ci.store.replicate import Copier
from ci.store.store import Store
from tests.hud_seed import Seeded, seed
from tests.hud_seed_plan import SPYRE, Job, cases_of
from tests.hud_seed_rows import write

BAR_MS = 300
END = datetime(2026, 8, 30, 12, tzinfo=UTC)
# So many addresses of one kind are opened.
OF_A_KIND = 3
LINK = re.compile(r'href="(/[^"]*)"')
# Tests of each of the two large runs, at most two thirds of all rows.
LARGE = 273_000
# Tests of a large run that the other does not have.
OTHERS = 3000
# Tests are copied in blocks of so many.
BLOCK = 100_000
# No run of the seeder has so high a number.
ELSEWHERE = 10**12
# Every job again as a job of another run and another delivery, with all rows of its tests. From an inner
# query, as a WHERE beside the REPLACE would be asked of the new numbers.
_MORE_JOBS = """
INSERT INTO crcr_workflow_job (* EXCEPT (repository_full_name, duration_seconds))
SELECT * REPLACE (
    id + :ids AS id, concat(dynamoKey, :suffix) AS dynamoKey, concat(delivery_id, :suffix) AS delivery_id,
    toString(toUInt64OrZero(run_id) + :more) AS run_id
) FROM (SELECT * FROM crcr_workflow_job WHERE toUInt64OrZero(run_id) < :first)
"""
_MORE_DETAILS = """
INSERT INTO job_detail
SELECT * REPLACE (concat(dynamoKey, :suffix) AS dynamoKey)
FROM (SELECT * FROM job_detail WHERE position(dynamoKey, '#') = 0)
"""
_MORE = """
INSERT INTO {0} SELECT * REPLACE (workflow_id + :more AS workflow_id)
FROM (SELECT * FROM {0} WHERE workflow_id < :first)
"""
ROUTES = (
    "/api/runs",
    "/api/tests?verdict=flaky",
    "/api/durations",
    "/api/cards",
    "/api/rollout",
    "/api/metrics",
    "/api/failing",
)


class Timed:
    """A database whose queries are timed.

    Attributes:
        taken: seconds of each query, by what was opened.
        page: what is opened now.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.taken: dict[str, list[float]] = defaultdict(list)
        self.page = ""

    def rows(self, query: str, values: Mapping[str, Value] | None = None) -> list[Row]:
        """See Database."""
        began = time.perf_counter()
        found = self._database.rows(query, values)
        self.taken[self.page].append(time.perf_counter() - began)
        return found

    def tuples(self, query: str, values: Mapping[str, Value] | None = None) -> Sequence[tuple[Any, ...]]:
        """See Database."""
        began = time.perf_counter()
        found = self._database.tuples(query, values)
        self.taken[self.page].append(time.perf_counter() - began)
        return found


def measure(*, rows: Mapping[str, int], rounds: int) -> dict[str, Any]:
    """Milliseconds of the slowest query of each kind of page, by database; a median of the rounds.

    Args:
        rows: rows of tests, by database.
        rounds: how often every page is opened.
    """
    found: dict[str, Any] = {"rows": dict(rows), "rounds": rounds, "databases": {}}
    with tempfile.TemporaryDirectory(prefix="spyre-ci-bench-") as name:
        folder = Path(name)
        large = min(LARGE, rows["sqlite"] // 3)
        seeded = seed(folder / "sqlite" / "hud.sqlite", end=END, tests=rows["sqlite"] - 2 * large)
        runs = _add_large(seeded, large)
        with closing(Store(seeded.path)) as store:
            found["databases"]["sqlite"] = _open_all(store, SqliteDatabase(store.path), runs, rounds)
        with (
            closing(Clickhouse(f"chdb:///{folder / 'chdb'}")) as clickhouse,
            closing(Store(seeded.path)) as store,
        ):
            Copier(store, clickhouse, warn=print).copy()
            _copy_tests(store, clickhouse, rows["clickhouse"] // rows["sqlite"])
            found["databases"]["clickhouse"] = _open_all(store, clickhouse, runs, rounds)
    return found


def show(found: dict[str, Any]) -> None:
    """As lines."""
    for name, pages in found["databases"].items():
        told = f"{name}, {found['rows'][name]:,} rows of tests: at most {max(pages.values()):.0f} ms"
        print(f"\nThe slowest query of each page, {told} (bar {BAR_MS})")
        for page, ms in sorted(pages.items(), key=lambda item: -item[1]):
            print(f"  {ms:8.1f} ms  {page}")


def _open_all(store: Store, database: Database, runs: Sequence[int], rounds: int) -> dict[str, float]:
    slowest: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        timed = Timed(database)
        store.database = timed
        app = create_app(store, token="t", repository="o/r", clock=END.timestamp)  # of nobody
        with embedded(app) as url, httpx.Client(base_url=url, timeout=120, trust_env=False) as client:
            for kind, address in chain(_of_large(runs), _addresses(client)):
                timed.page = kind
                answer = client.get(address)
                if answer.status_code != httpx.codes.OK:
                    raise RuntimeError(f"{address}: {answer.status_code}")
        for kind, taken in timed.taken.items():
            if kind:
                slowest[kind].append(max(taken) * 1000)
    return {kind: statistics.median(times) for kind, times in slowest.items()}


def _addresses(client: httpx.Client) -> Iterator[tuple[str, str]]:
    """Addresses of every kind of page, found by following links, and the routes."""
    waiting, seen, kinds = deque(["/", *ROUTES]), set[str](), defaultdict[str, int](int)
    while waiting:
        address = waiting.popleft()
        kind = re.sub(r"\d+", "N", address.partition("?")[0])
        if address in seen or kinds[kind] >= OF_A_KIND:
            continue
        seen.add(address)
        kinds[kind] += 1
        yield kind, address
        if not address.startswith("/api"):
            waiting.extend(html.unescape(link) for link in LINK.findall(client.get(address).text))


def _of_large(runs: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Addresses of what reads most of a large run, or of both."""
    before, after = runs
    for kind in KINDS:
        address = f"/compare?before={before}&after={after}&kind={kind}"
        yield f"two large runs: {kind}", address.replace(" ", "%20")
    for order in ("verdict", "time"):
        for offset in (0, 100_000, 250_000):
            yield (
                f"a large run by {order} from {offset:,}",
                f"/runs/{after}/tests?order={order}&offset={offset}",
            )


def _add_large(seeded: Seeded, tests: int) -> tuple[int, int]:
    """Two runs of so many tests each, most of them the same; their numbers."""
    draw = random.Random(2)
    cases = cases_of(draw, tests + OTHERS, 90)
    with closing(sqlite3.connect(seeded.path)) as connection, connection:
        for run in (0, 1):
            sha, start = f"{run:040x}", seeded.end - timedelta(days=2 - run)
            job = Job(
                SPYRE, "release", "nightly", "Release", "all", 87 + run, start, sha, sha, 9 * 10**9 + run,
                share=80.0, stage=4,
            )  # fmt: skip
            own = cases[run * OTHERS : run * OTHERS + tests]
            seeded.jobs += 1
            seeded.tests += write(connection, draw, job, place=seeded.jobs, cases=own)
    return seeded.jobs - 1, seeded.jobs


def _copy_tests(store: Store, clickhouse: Clickhouse, times: int) -> None:
    """Bring the tests over, and again so many times as those of other runs on the same days."""
    reads = SqliteDatabase(store.path)
    for table in ("job_card", "test_run_summary"):
        clickhouse.insert(table, reads.rows(f"SELECT * FROM {table}"))  # noqa: S608  # our names
    last = 0
    while block := reads.rows(
        "SELECT * FROM test_run WHERE id > :last ORDER BY id LIMIT :most", {"last": last, "most": BLOCK}
    ):
        last = block[-1]["id"]
        clickhouse.insert("test_run", block)
    tests = _number(clickhouse, "test_run")
    for number in range(1, times):
        values: dict[str, Value] = {"more": number * ELSEWHERE, "first": ELSEWHERE}
        suffix = f"#{number}"
        clickhouse.do(_MORE_JOBS, {**values, "ids": number * ELSEWHERE, "suffix": suffix})
        clickhouse.do(_MORE_DETAILS, {"suffix": suffix})
        for table in ("test_run", "job_card", "test_run_summary"):
            clickhouse.do(_MORE.format(table), values)
    if (found := _number(clickhouse, "test_run")) != tests * times:
        raise RuntimeError(f"{found} rows of tests and not {tests * times}")


def _number(database: Database, table: str) -> int:
    return int(database.rows(f"SELECT count(*) AS number FROM {table}")[0]["number"])  # noqa: S608  # our names
