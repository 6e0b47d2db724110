"""HUD's nine queries: the same columns, rows, order and numbers as HUD's own, `crcr_*`.

HUD counts attempts in more than one way (see each); our pages count them by `superseded` alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from ci.hud.server.queries.window import DAY_S, moment, names_of
from ci.store.database import Database

PROBES = "pytorch/crcr-test"
# HUD's own probe repository has jobs that shall end badly: their names say how.
EXPECTED = {"xfail": "failure", "xcancel": "cancelled", "xtimeout": "timed_out"}
NIGHTLY_ROWS = 500
PR_ROWS = 100
_SHA = re.compile(r"[0-9a-fA-F]{40}")


class Row(BaseModel):
    """A row of an answer."""

    model_config = ConfigDict(frozen=True)


class RepoSummary(Row):
    """A repository's pull-request jobs; seconds, shares from 0 to 1."""

    repo: str
    downstream_repo_level: str
    successes: int
    failures: int
    timed_out: int
    total: int
    pass_rate: float
    avg_duration_s: float
    last_run: str


class NightlySummary(RepoSummary):
    """A repository's nightly jobs."""

    latest_sha: str


class BackendSummary(Row):
    """One repository's pull-request jobs; seconds, shares from 0 to 1, null where nothing was measured."""

    successes: int
    failures: int
    timed_out: int
    total_jobs: int
    pass_rate: float
    total_prs: int
    avg_queue_time_s: float | None
    avg_exec_time_s: float | None
    timeout_rate: float


class SuccessRate(Row):
    """A repository's jobs of one day (UTC)."""

    day: str
    repo: str
    successes: int
    failures: int
    timed_out: int
    total: int
    pass_rate: float


class HealthOfPr(Row):
    """The probes of one pull request; the pass rate is null where none has completed."""

    pr_number: int
    last_run: str
    successes: int
    total: int
    pending: int
    overdue_in_progress: int
    pass_rate: float | None


def summary(database: Database, *, now: float, days: int) -> list[RepoSummary]:
    """`crcr_summary`: of each (repository, pull request, job name) the completed row of the highest attempt.

    Where two rows have the same attempt, the one that started last counts. The worst comes first.
    """
    rows = database.rows(
        """
        WITH attempts AS (
            SELECT downstream_repo, downstream_repo_level, job_name, conclusion, duration_seconds, started_at,
                row_number() OVER (
                    PARTITION BY downstream_repo, pr_number, job_name
                    ORDER BY run_attempt DESC, started_at DESC, dynamoKey DESC
                ) AS place
            FROM crcr_workflow_job_ranked
            WHERE started_at > :since AND status = 'completed' AND pr_number > 0
        ), latest AS (
            SELECT downstream_repo, downstream_repo_level, conclusion, duration_seconds, started_at,
                CASE WHEN downstream_repo = :probes THEN job_name ELSE '' END AS probe,
                row_number() OVER (PARTITION BY downstream_repo ORDER BY started_at DESC) AS recency
            FROM attempts WHERE place = 1
        )
        SELECT downstream_repo AS repo, probe, conclusion AS ending, count(*) AS jobs,
            sum(duration_seconds) AS seconds, max(started_at) AS last_start,
            max(CASE WHEN recency = 1 THEN downstream_repo_level ELSE '' END) AS level
        FROM latest GROUP BY downstream_repo, probe, conclusion
        """,
        {"since": moment(now - days * DAY_S), "probes": PROBES},
    )
    by_repo: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_repo.setdefault(row["repo"], []).append(row)
    made = [_summed(repo, parts) for repo, parts in by_repo.items()]
    return sorted(made, key=lambda one: (one.pass_rate, one.repo))


def _summed(repo: str, parts: Sequence[dict[str, Any]]) -> RepoSummary:
    counts = Counter[str]()
    for part in parts:
        counts["success" if is_expected(part["probe"], part["ending"]) else part["ending"]] += part["jobs"]
    total = counts.total()
    return RepoSummary(
        repo=repo,
        downstream_repo_level=max(part["level"] for part in parts),
        successes=counts["success"],
        failures=counts["failure"],
        timed_out=counts["timed_out"],
        total=total,
        pass_rate=share(counts["success"], total),
        avg_duration_s=sum(part["seconds"] for part in parts) / total,
        last_run=max(part["last_start"] for part in parts),
    )


def is_expected(job_name: str, conclusion: str) -> bool:
    """Whether a probe of that name shall end so."""
    return any(word in job_name and conclusion == ending for word, ending in EXPECTED.items())


def nightly_summary(database: Database, *, now: float, days: int) -> list[NightlySummary]:
    """`crcr_nightly_summary`: every completed nightly row, superseded ones too. The worst comes first."""
    rows = database.rows(
        """
        WITH nightly AS (
            SELECT downstream_repo, downstream_repo_level, conclusion, duration_seconds, started_at,
                pytorch_head_sha,
                row_number() OVER (
                    PARTITION BY downstream_repo ORDER BY started_at DESC, dynamoKey DESC
                ) AS recency
            FROM crcr_workflow_job_ranked
            WHERE started_at > :since AND status = 'completed' AND event_type = 'nightly'
        )
        SELECT downstream_repo AS repo,
            max(CASE WHEN recency = 1 THEN downstream_repo_level ELSE '' END) AS level,
            sum(CASE WHEN conclusion = 'success' THEN 1 ELSE 0 END) AS successes,
            sum(CASE WHEN conclusion = 'failure' THEN 1 ELSE 0 END) AS failures,
            sum(CASE WHEN conclusion = 'timed_out' THEN 1 ELSE 0 END) AS timed_out,
            count(*) AS total, avg(duration_seconds) AS avg_duration_s, max(started_at) AS last_run,
            max(CASE WHEN recency = 1 THEN pytorch_head_sha ELSE '' END) AS latest_sha
        FROM nightly GROUP BY downstream_repo
        """,
        {"since": moment(now - days * DAY_S)},
    )
    made = [
        NightlySummary(
            downstream_repo_level=row["level"], pass_rate=share(row["successes"], row["total"]), **row
        )
        for row in rows
    ]
    return sorted(made, key=lambda one: (one.pass_rate, one.repo))


def backend_summary(database: Database, *, now: float, repo: str, days: int) -> BackendSummary:
    """`crcr_backend_summary`: every completed row of a pull request, superseded ones too."""
    (row,) = database.rows(
        """
        SELECT coalesce(sum(CASE WHEN conclusion = 'success' THEN 1 ELSE 0 END), 0) AS successes,
            coalesce(sum(CASE WHEN conclusion = 'failure' THEN 1 ELSE 0 END), 0) AS failures,
            coalesce(sum(CASE WHEN conclusion = 'timed_out' THEN 1 ELSE 0 END), 0) AS timed_out,
            count(*) AS total_jobs, count(DISTINCT pr_number) AS total_prs,
            sum(queue_time) AS queued_s, count(queue_time) AS queued,
            sum(execution_time) AS executed_s, count(execution_time) AS executed
        FROM crcr_workflow_job_ranked
        WHERE downstream_repo = :repo AND started_at > :since AND status = 'completed' AND pr_number > 0
        """,
        {"repo": repo, "since": moment(now - days * DAY_S)},
    )
    return BackendSummary(
        **{name: row[name] for name in ("successes", "failures", "timed_out", "total_jobs", "total_prs")},
        pass_rate=share(row["successes"], row["total_jobs"]),
        timeout_rate=share(row["timed_out"], row["total_jobs"]),
        avg_queue_time_s=row["queued_s"] / row["queued"] if row["queued"] else None,
        avg_exec_time_s=row["executed_s"] / row["executed"] if row["executed"] else None,
    )


def success_rate(database: Database, *, now: float, days: int) -> list[SuccessRate]:
    """`crcr_success_rate`: every completed row, superseded ones too, by day and repository."""
    rows = database.rows(
        """
        SELECT substr(started_at, 1, 10) AS day, downstream_repo AS repo,
            sum(CASE WHEN conclusion = 'success' THEN 1 ELSE 0 END) AS successes,
            sum(CASE WHEN conclusion = 'failure' THEN 1 ELSE 0 END) AS failures,
            sum(CASE WHEN conclusion = 'timed_out' THEN 1 ELSE 0 END) AS timed_out, count(*) AS total
        FROM crcr_workflow_job_ranked WHERE started_at > :since AND status = 'completed'
        GROUP BY substr(started_at, 1, 10), downstream_repo ORDER BY day, repo
        """,
        {"since": moment(now - days * DAY_S)},
    )
    return [
        SuccessRate(**{**row, "day": str(row["day"])}, pass_rate=share(row["successes"], row["total"]))
        for row in rows
    ]


def health_last_prs(
    database: Database, *, now: float, window_minutes: int, stale_after_minutes: int
) -> list[HealthOfPr]:
    """`crcr_health_last_prs`: HUD's probes, of each (run, job name) the highest attempt; the latest first.

    A pull request is there when one of its probes started within the window; then all its probes count.
    """
    rows = database.rows(
        """
        WITH recent AS (
            SELECT pr_number FROM crcr_workflow_job_ranked
            WHERE downstream_repo = :probes AND pr_number > 0 AND started_at >= :since GROUP BY pr_number
        ), attempts AS (
            SELECT pr_number, status, conclusion, started_at, job_name,
                row_number() OVER (
                    PARTITION BY run_id, job_name ORDER BY run_attempt DESC, started_at DESC, dynamoKey DESC
                ) AS place
            FROM crcr_workflow_job_ranked
            WHERE downstream_repo = :probes AND pr_number > 0 AND pr_number IN (SELECT pr_number FROM recent)
        )
        SELECT pr_number, status, conclusion, started_at, job_name FROM attempts WHERE place = 1
        """,
        {"probes": PROBES, "since": moment(now - window_minutes * 60)},
    )
    by_number: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_number.setdefault(row["pr_number"], []).append(row)
    stale = moment(now - stale_after_minutes * 60)
    made = [_health(number, jobs, stale) for number, jobs in sorted(by_number.items())]
    return sorted(made, key=lambda one: one.last_run, reverse=True)


def _health(number: int, jobs: Sequence[dict[str, Any]], stale: str) -> HealthOfPr:
    done = [job for job in jobs if job["status"] == "completed"]
    good = [
        job
        for job in done
        if job["conclusion"] == "success" or is_expected(job["job_name"], job["conclusion"])
    ]
    waiting = [
        job
        for job in jobs
        if job["status"] == "in_progress"
        and not any(word in job["job_name"] for word in ("xfail", "xtimeout"))
    ]
    return HealthOfPr(
        pr_number=number,
        last_run=max(job["started_at"] for job in jobs),
        successes=len(good),
        total=len(done),
        pending=len(waiting),
        overdue_in_progress=sum(job["started_at"] < stale for job in waiting),
        pass_rate=share(len(good), len(done)) if done else None,
    )


def share(part: int, whole: int) -> float:
    """A part of a whole, 0 to 1; 0 where there is nothing."""
    return part / whole if whole else 0.0


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
