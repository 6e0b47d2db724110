"""What a static copy holds, as the store has it now."""

from __future__ import annotations

from ci.hud.server.database import Database
from ci.hud.server.export.addresses import Chosen
from ci.hud.server.queries.jobs import job_before
from ci.hud.server.queries.window import CHOSEN, Window
from ci.hud.server.queries.worst_tests import VERDICTS

MOST_TESTS = 5000


def chosen_of(database: Database, window: Window, *, runs: int) -> Chosen:
    """What a copy of a window holds.

    Args:
        database: what is asked.
        window: of the copy.
        runs: how many of its newest runs at most, superseded attempts among them.
    """
    jobs = database.rows(
        "SELECT * FROM crcr_workflow_job_ranked WHERE started_at > :since "
        "ORDER BY started_at DESC, id DESC LIMIT :most",
        {"since": window.since, "most": runs},
    )
    before = [(job_before(database, job), job["id"]) for job in jobs]
    return Chosen(
        days=window.days,
        runs=frozenset(job["id"] for job in jobs),
        listed=sum(not job["superseded"] for job in jobs),
        pairs=frozenset((str(one), str(other)) for one, other in before if one is not None),
        tests=_with_problems(database, window),
    )


def _with_problems(database: Database, window: Window) -> frozenset[str]:
    marks = ", ".join(f"'{verdict}'" for verdict in VERDICTS)
    # As in `worst_tests`: the jobs first, then the rows of each by the index on (job, verdict).
    rows = database.rows(
        f"""
        WITH jobs AS (
            SELECT j.workflow_id AS o_workflow, j.workflow_run_attempt AS o_attempt, j.job_id AS o_job
            {CHOSEN}
        )
        SELECT t.test_key AS o_key FROM jobs AS b CROSS JOIN settled_test_run AS t
        WHERE t.workflow_id = b.o_workflow AND t.workflow_run_attempt = b.o_attempt
            AND t.job_id = b.o_job AND t.verdict IN ({marks})
        GROUP BY t.test_key ORDER BY count(*) DESC, t.test_key LIMIT :most
        """,  # noqa: S608  # our names
        {**window.values, "most": MOST_TESTS},
    )
    return frozenset(str(row["o_key"]) for row in rows)
