"""Seconds of every page and route: on a SQLite store of so many tests, and on ninety days in ClickHouse.

SQLite's store is made up by the tests' seeder: ninety days of three back ends, and two runs of LARGE tests
each, which are compared, and read far down. ClickHouse's has LANES runs a day of ninety days, each of so many
tests, which are made up in ClickHouse itself. A page is requested as a browser does.
"""

from __future__ import annotations

import html
import math
import random
import re
import sqlite3
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import httpx

from ci.hud.server.queries.compare import KINDS
from ci.store.clickhouse import Clickhouse, ClickhouseRowStore
from ci.store.replicate import Copier
from ci.store.rows import Job
from ci.store.store import Store
from tests.hud_seed import Seeded, seed
from tests.hud_seed_plan import SPYRE, cases_of
from tests.hud_seed_plan import Job as MadeJob
from tests.hud_seed_rows import Account, insert_job, write
from tests.hud_server import create_app, embedded

BAR_MS = 150
END = datetime(2026, 8, 30, 12, tzinfo=UTC)
# So many addresses of one kind are opened.
OF_A_KIND = 3
FEW = 3
LINK = re.compile(r'href="(/[^"]*)"')
# Tests of each of the two large runs, at most two thirds of all rows.
LARGE = 273_000
# Tests of a large run that the other does not have.
OTHERS = 3000
LANES = ("nightly-main", "nightly-pinned", "nightly-compile", "nightly-eager")
DAYS = 90
# What becomes of a test in a run: as tests.hud_seed_plan.verdict_of has it, but for hardware.
_RUN = """
INSERT INTO test_run (
    workflow_id, workflow_run_attempt, job_id, invoking_file, file, classname, name, time, failure, skipped,
    test_id, test_key, verdict, card, attempts, message, upload_id
)
WITH cityHash64(test_key, :run) AS draw, draw % 10000 / 10000 AS luck,
    multiIf(
        kind = 'skipped', 'skipped', kind = 'xfailed', if(luck < 0.01, 'xpassed', 'xfailed'),
        kind = 'flaky' AND luck < 0.08, 'flaky', kind = 'flaky' AND luck < 0.12, 'failed',
        :day >= broken AND :day < mended, 'failed', 'passed'
    ) AS became,
    if(became IN ('failed', 'flaky', 'skipped'), 'AssertionError: Tensor-likes are not close!', '') AS said,
    concat('{"message": "', said, '"}') AS told
SELECT :run, 1, :job, substring(file, 6, length(file) - 8), file, classname, name,
    if(became = 'skipped', 0, seconds * (0.85 + luck * 0.35)), if(became = 'failed', told, ''),
    if(became = 'skipped', told, ''), id, test_key, became,
    concat('0000:', toString(10 + draw % 24), ':00.0'), if(became IN ('failed', 'flaky'), 3, 1), said, :run
FROM made_case
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


def measure(*, tests: int, tests_of_run: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of each kind of page, by database: of nineteen in twenty requests at most so many.

    Args:
        tests: in SQLite, altogether.
        tests_of_run: in ClickHouse, of each run.
        rounds: how often every page is requested; FEW times those of large runs, and of ClickHouse.
    """
    found: dict[str, Any] = {"databases": {}}
    with tempfile.TemporaryDirectory(prefix="spyre-ci-bench-") as name:
        folder = Path(name)
        large = min(LARGE, tests // 3)
        seeded = seed(folder / "sqlite" / "hud.sqlite", end=END, tests=tests - 2 * large)
        runs = _add_large(seeded, large)
        with closing(Store(seeded.path)) as store:
            found["databases"]["sqlite"] = _measured(store, runs, rounds)
        with closing(Clickhouse(f"chdb:///{folder / 'chdb'}")) as clickhouse:
            ledger = folder / "ledger" / "hud.sqlite"
            with closing(Store(ledger, clickhouse)) as store:
                runs = _make_runs(store, clickhouse, tests_of_run)
                found["databases"]["clickhouse"] = _measured(store, runs, min(rounds, FEW))
    return found


def show(found: dict[str, Any]) -> None:
    """As lines."""
    for name, told in found["databases"].items():
        pages = told["pages"]
        print(
            f"\n{name}, {told['tests']:,} tests: p95 of {told['rounds']} requests of each address of a page"
            f" (bar of SQLite's pages, but of large runs: {BAR_MS} ms)"
        )
        for page, ms in sorted(pages.items(), key=lambda item: -item[1]):
            print(f"  {ms:8.1f} ms  {page}")


def _measured(store: Store, runs: Sequence[int], rounds: int) -> dict[str, Any]:
    taken: dict[str, list[float]] = defaultdict(list)
    app = create_app(store, token="t", repository="o/r", clock=END.timestamp)  # of nobody
    with embedded(app) as url, httpx.Client(base_url=url, timeout=120, trust_env=False) as client:
        few = min(rounds, FEW)
        pages = [(*page, few) for page in _of_large(runs)] + [(*page, rounds) for page in _addresses(client)]
        for number in range(rounds):
            for kind, address in ((kind, address) for kind, address, times in pages if number < times):
                began = time.perf_counter()
                client.get(address).raise_for_status()
                taken[kind].append((time.perf_counter() - began) * 1000)
    (tests,) = store.database.tuples("SELECT count(*) FROM test_run")[0]
    return {"tests": tests, "rounds": rounds, "pages": {kind: _p95(times) for kind, times in taken.items()}}


def _p95(times: Sequence[float]) -> float:
    return sorted(times)[math.ceil(0.95 * len(times)) - 1]


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
            job = MadeJob(
                SPYRE, "release", "nightly", "Release", "all", 87 + run, start, sha, sha, 9 * 10**9 + run,
                share=80.0, stage=4,
            )  # fmt: skip
            own = cases[run * OTHERS : run * OTHERS + tests]
            seeded.jobs += 1
            seeded.tests += write(connection, draw, job, place=seeded.jobs, cases=own)
    return seeded.jobs - 1, seeded.jobs


def _make_runs(store: Store, clickhouse: Clickhouse, tests: int) -> tuple[int, int]:
    """Runs of so many tests in ClickHouse, one a lane and day; the numbers of two."""
    draw, first = random.Random(3), END - timedelta(days=DAYS - 1)
    clickhouse.do(
        "CREATE TABLE made_case (id String, test_key UInt64, file String, classname String, name String, "
        "seconds Float64, kind String, broken Int32, mended Int32) ENGINE = MergeTree ORDER BY file"
    )
    columns = ("id", "file", "classname", "name", "seconds", "kind")
    cases = [
        {name: getattr(case, name) for name in columns}
        | {"test_key": case.key, "broken": case.broken.start, "mended": case.broken.stop}
        for case in cases_of(draw, tests, DAYS)
    ]
    clickhouse.insert("made_case", cases)
    rows, place = ClickhouseRowStore(clickhouse), 0
    with closing(sqlite3.connect(store.path)) as connection:
        for day, lane in product(range(DAYS), LANES):
            place += 1
            sha, run = f"{place:040x}", 9 * 10**9 + place
            start = first + timedelta(days=day, hours=LANES.index(lane) - 10)
            job = MadeJob(
                SPYRE, lane, "nightly", "Nightly", lane, day, start, sha, sha, run, share=80.0, stage=4
            )
            account = Account(job=job, place=place, check=str(run), total=tests)
            of_job = Job(**account.base)
            clickhouse.do(_RUN, {"run": run, "job": of_job.job_id, "day": day})
            rows.recount(of_job)
            counted = clickhouse.tuples(
                "SELECT card, verdict, sum(tests), sum(seconds) FROM job_card WHERE workflow_id = :run "
                "GROUP BY card, verdict",
                {"run": run},
            )
            for card, verdict, number, seconds in counted:
                account.cards[card, verdict], account.seconds[card, verdict] = number, seconds
            with connection:
                insert_job(connection, draw, account)
    Copier(store, clickhouse, warn=print).copy()
    return place - len(LANES), place
