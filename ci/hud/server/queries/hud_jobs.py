"""HUD's four queries that list jobs: the same columns, rows and order as HUD's own, `crcr_*`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ci.hud.server.database import Database
from ci.hud.server.queries.hud_numbers import PROBES, Row
from ci.hud.server.queries.window import DAY_S, moment, names_of

NIGHTLY_ROWS = 500
PR_ROWS = 100
_SHA = re.compile(r"[0-9a-fA-F]{40}")


class NightlyJob(Row):
    """A job as HUD's nightly grid has it; seconds, null where nothing was measured."""

    upstream_repo: str
    pytorch_head_sha: str
    workflow_name: str
    job_name: str
    check_run_id: str
    run_id: str
    run_attempt: int
    status: str
    conclusion: str
    started_at: str
    completed_at: str
    duration_seconds: float
    total_tests: int
    passed_tests: int
    failed_tests: int
    skipped_tests: int
    workflow_run_url: str
    artifact_url: str
    queue_time: float | None
    execution_time: float | None
    failed_tests_json: str


class BackendJob(NightlyJob):
    """A job as HUD's grid by pull request has it."""

    pr_number: int


class PrResult(Row):
    """A job as HUD's list of one pull request has it."""

    downstream_repo: str
    workflow_name: str
    job_name: str
    check_run_id: str
    run_id: str
    run_attempt: int
    status: str
    conclusion: str
    duration_seconds: float
    workflow_run_url: str
    artifact_url: str
    started_at: str
    queue_time: float | None
    execution_time: float | None


class HudResult(Row):
    """A job as HUD's main grid has it."""

    pr_number: int
    pytorch_head_sha: str
    downstream_repo: str
    downstream_repo_level: str
    workflow_name: str
    job_name: str
    check_run_id: str
    run_id: str
    run_attempt: int
    status: str
    conclusion: str
    workflow_run_url: str
    duration_seconds: float
    failed_tests_json: str


def backend_dashboard(
    database: Database, *, now: float, repo: str, days: int, per_page: int, offset: int
) -> list[BackendJob]:
    """`crcr_backend_dashboard`: every row of the pull requests of one page, superseded ones too.

    Pull requests come by their newest start, rows by theirs; `per_page` and `offset` count pull requests.
    """
    rows = database.rows(
        f"""
        SELECT {", ".join(BackendJob.model_fields)} FROM crcr_workflow_job_ranked
        WHERE downstream_repo = :repo AND started_at > :since AND pr_number IN (
            SELECT pr_number FROM crcr_workflow_job_ranked
            WHERE downstream_repo = :repo AND started_at > :since AND pr_number > 0
            GROUP BY pr_number ORDER BY max(started_at) DESC, pr_number DESC LIMIT :per_page OFFSET :offset
        )
        ORDER BY started_at DESC, dynamoKey
        """,  # noqa: S608  # our names
        {"repo": repo, "since": moment(now - days * DAY_S), "per_page": per_page, "offset": offset},
    )
    return [BackendJob(**row) for row in rows]


def nightly_dashboard(database: Database, *, now: float, repo: str, days: int) -> list[NightlyJob]:
    """`crcr_nightly_dashboard`: whole nightlies that had a job completed within the days, at most 500 rows.

    A nightly is all jobs of one PyTorch commit, or of one run where the commit is no SHA; of each (commit,
    run, job name) the highest attempt.
    """
    values = {"repo": repo, "since": moment(now - days * DAY_S), "now": moment(now)}
    finished = """
        FROM crcr_workflow_job_ranked WHERE downstream_repo = :repo AND event_type = 'nightly'
            AND status = 'completed' AND completed_at >= :since AND completed_at < :now
    """
    keys = {
        _nightly(row["pytorch_head_sha"], row["run_id"])
        for row in database.rows(f"SELECT DISTINCT pytorch_head_sha, run_id {finished}", values)
    }
    rows = database.rows(
        f"""
        WITH attempts AS (
            SELECT {", ".join(NightlyJob.model_fields)}, dynamoKey,
                row_number() OVER (
                    PARTITION BY pytorch_head_sha, run_id, job_name
                    ORDER BY run_attempt DESC, started_at DESC, dynamoKey DESC
                ) AS place
            FROM crcr_workflow_job_ranked
            WHERE downstream_repo = :repo AND event_type = 'nightly' AND (
                pytorch_head_sha IN (SELECT pytorch_head_sha {finished})
                OR run_id IN (SELECT run_id {finished})
            )
        )
        SELECT * FROM attempts WHERE place = 1 ORDER BY started_at DESC, dynamoKey
        """,  # noqa: S608  # our names
        values,
    )
    chosen = [row for row in rows if _nightly(row["pytorch_head_sha"], row["run_id"]) in keys]
    return [NightlyJob(**row) for row in chosen[:NIGHTLY_ROWS]]


def pr_results(database: Database, *, pr: int) -> list[PrResult]:
    """`crcr_pr_results`: every row of one pull request, superseded ones too, at most 100."""
    rows = database.rows(
        f"SELECT {', '.join(PrResult.model_fields)} FROM crcr_workflow_job_ranked "  # noqa: S608  # our names
        "WHERE pr_number = :pr AND pr_number > 0 "
        "ORDER BY downstream_repo, started_at DESC, dynamoKey LIMIT :most",
        {"pr": pr, "most": PR_ROWS},
    )
    return [PrResult(**row) for row in rows]


def hud_results(database: Database, *, numbers: Sequence[int]) -> list[HudResult]:
    """`crcr_hud_results`: every row of some pull requests, superseded ones too, without HUD's own probes."""
    names = names_of("pr", len(numbers))
    marks = ", ".join(f":{name}" for name in names) or "0"
    rows = database.rows(
        f"SELECT {', '.join(HudResult.model_fields)} FROM crcr_workflow_job_ranked "  # noqa: S608  # our names
        f"WHERE pr_number IN ({marks}) AND pr_number > 0 AND downstream_repo != :probes "
        "ORDER BY pr_number, downstream_repo, job_name, dynamoKey",
        {**dict(zip(names, numbers, strict=True)), "probes": PROBES},
    )
    return [HudResult(**row) for row in rows]


def _nightly(sha: str, run_id: str) -> str:
    return f"sha:{sha}" if _SHA.fullmatch(sha) else f"run:{run_id or sha}"
