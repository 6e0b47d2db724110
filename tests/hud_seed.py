"""Ninety days of made-up history for the store: the same seed and end give the same rows.

What is in it: three repositories, lanes whose stage grows from 5 to 80 %, pull requests that ran again, flaky
tests, a card that goes bad, four days without a good nightly, and text that wants to be more than text.
`python tests/hud_seed.py FILE --tests 1000000` makes a store to look at.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ci.store.database import Row, SqliteDatabase
from ci.store.store import Store
from tests.hud_seed_plan import cases_of, jobs_of
from tests.hud_seed_rows import write


@dataclass(slots=True, kw_only=True)
class Seeded:
    """What a test wants to know of a seeded store."""

    path: Path
    end: datetime
    jobs: int = 0
    tests: int = 0
    flaky: list[str] = field(default_factory=list)
    hostile: list[str] = field(default_factory=list)


def seed(path: Path, *, end: datetime, tests: int = 40_000, days: int = 90, number: int = 1) -> Seeded:
    """Make a store.

    Args:
        path: of the file, which must not be there.
        end: the last moment of the history, in UTC.
        tests: about how many rows of tests.
        days: how long the history is.
        number: of the seed.
    """
    draw = random.Random(number)  # noqa: S311  # no secrets
    Store(path).close()
    jobs = sorted((job for job in jobs_of(draw, end, days) if job.start < end), key=lambda job: job.start)
    weight = sum(job.weight for job in jobs) or 1.0
    most = max((job.weight for job in jobs), default=0.0)
    cases = cases_of(draw, round(1.02 * tests * most / weight), days)
    seeded = Seeded(path=path, end=end, jobs=len(jobs))
    seeded.flaky = [case.id for case in cases if case.kind == "flaky"]
    seeded.hostile = [case.id for case in cases if case.kind == "hostile"]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -400000")
        connection.execute("BEGIN")
        for place, job in enumerate(jobs, 1):
            wanted = round(tests * job.weight / weight)
            seeded.tests += write(connection, draw, job, place=place, cases=cases[:wanted])
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return seeded


def every_row(path: Path) -> list[Row]:
    """Every row of a test with its job; `replaced` where a later attempt supersedes it."""
    return SqliteDatabase(path).rows(
        "SELECT t.*, j.id AS job, j.started_at, j.downstream_repo, j.event_type, j.delivery_id, j.job_name, "
        "d.lane, "
        "j.run_attempt < max(j.run_attempt) OVER (PARTITION BY j.downstream_repo, j.delivery_id, "
        "j.workflow_name, j.job_name, j.run_id, t.test_key) AS replaced "
        "FROM test_run AS t JOIN crcr_workflow_job AS j ON t.job_id = j.job_id "
        "JOIN job_detail AS d USING (dynamoKey)"
    )


def main() -> None:
    """Make a store by hand."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--tests", type=int, default=40_000)
    parser.add_argument("--end", type=datetime.fromisoformat, default=datetime(2026, 8, 30, 12, tzinfo=UTC))
    told = parser.parse_args()
    made = seed(told.file, end=told.end, tests=told.tests)
    print(f"{made.path}: {made.jobs:,} jobs, {made.tests:,} rows of tests")  # noqa: T201  # for people


if __name__ == "__main__":
    main()
