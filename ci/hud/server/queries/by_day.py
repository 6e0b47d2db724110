"""Verdicts of tests by day and card, summed from what each job brought; no row of a test is read."""

from __future__ import annotations

from dataclasses import dataclass

from ci.hud.server.database import Database
from ci.hud.server.queries.window import CHOSEN, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class DayVerdict:
    """So many tests of a day (UTC) had a verdict, on one card or (empty) on none or any."""

    day: str
    card: str
    verdict: str
    tests: int
    seconds: float
    jobs: int


def verdicts_by_day(database: Database, window: Window, *, cards: bool = False) -> list[DayVerdict]:
    """The verdicts of the window's jobs, superseded attempts left out, in the order of days.

    Args:
        database: what is asked.
        window: which jobs.
        cards: by card as well; tests that saw no card are left out then.
    """
    card = "c.card" if cards else "''"
    rows = database.rows(
        f"""
        WITH jobs AS (
            SELECT j.workflow_id AS o_workflow, j.workflow_run_attempt AS o_attempt, j.job_id AS o_job,
                substr(j.started_at, 1, 10) AS o_day
            {CHOSEN}
        )
        SELECT b.o_day AS day, {card} AS o_card, c.verdict AS o_verdict, sum(c.tests) AS all_tests,
            sum(c.seconds) AS all_seconds, count(*) AS parts
        FROM jobs AS b
        JOIN job_card AS c ON c.workflow_id = b.o_workflow AND c.workflow_run_attempt = b.o_attempt
            AND c.job_id = b.o_job
        {"WHERE c.card != ''" if cards else ""}
        GROUP BY b.o_day, {"c.card, " if cards else ""}c.verdict ORDER BY day, o_card, o_verdict
        """,  # noqa: S608  # our names
        window.values,
    )
    return [
        DayVerdict(
            day=str(row["day"]),
            card=row["o_card"],
            verdict=row["o_verdict"],
            tests=row["all_tests"],
            seconds=row["all_seconds"],
            jobs=row["parts"],
        )
        for row in rows
    ]
