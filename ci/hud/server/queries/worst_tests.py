"""The tests of a window that were flaky or failed most often."""

from __future__ import annotations

from dataclasses import dataclass

from ci.hud.server.database import Database
from ci.hud.server.queries.window import CHOSEN, Window

MOST = 50
VERDICTS = ("flaky", "failed", "hardware", "xpassed")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstTest:
    """A test and in how many runs of the window it had the verdict asked for, on how many cards, and when."""

    test_id: str
    test_key: str
    place: int
    runs: int
    cards: int
    first_seen: str
    last_seen: str


def worst_tests(database: Database, window: Window, verdict: str) -> tuple[int, list[WorstTest]]:
    """How many tests had a verdict in the window, and those that had it most often; at most 50.

    Attempts that a later one superseded are left out.
    """
    # SQLite takes a CROSS JOIN in the order it is written: the jobs, then the rows of each by the index on
    # (job, verdict). Else it reads every row; to ClickHouse it is a join like any other.
    rows = database.rows(
        f"""
        WITH jobs AS (
            SELECT j.workflow_id AS o_workflow, j.workflow_run_attempt AS o_attempt, j.job_id AS o_job,
                j.started_at AS o_started, j.id AS o_run
            {CHOSEN}
        ), tests AS (
            SELECT t.test_key AS o_key, min(t.test_id) AS o_id, min(t.place) AS o_place,
                count(DISTINCT b.o_run) AS runs,
                count(DISTINCT t.card) AS cards, min(b.o_started) AS first_seen, max(b.o_started) AS last_seen
            FROM jobs AS b
            CROSS JOIN settled_test_run AS t
            WHERE t.workflow_id = b.o_workflow AND t.workflow_run_attempt = b.o_attempt
                AND t.job_id = b.o_job AND t.verdict = :verdict
            GROUP BY t.test_key
        )
        SELECT o_key, o_id, o_place, runs, cards, first_seen, last_seen, count(*) OVER () AS altogether
        FROM tests ORDER BY runs DESC, last_seen DESC, o_id LIMIT :most
        """,  # noqa: S608  # our names
        {**window.values, "verdict": verdict, "most": MOST},
    )
    return (rows[0]["altogether"] if rows else 0), [
        WorstTest(
            test_id=row["o_id"],
            test_key=str(row["o_key"]),
            place=row["o_place"],
            runs=row["runs"],
            cards=row["cards"],
            first_seen=row["first_seen"],
            last_seen=row["last_seen"],
        )
        for row in rows
    ]
