"""The jobs of a window, one row each, and single ones; superseded attempts only where they are asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from ci.hud.server.queries.rows import listed, records
from ci.hud.server.queries.window import CHOSEN, LANE, WINDOW_JOBS, Window
from ci.store.database import Database, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that no later attempt superseded, with what it says of itself.

    Times are texts, empty where unknown; durations are seconds; counts are of tests, `in_scope`, `selected`,
    `ran` and `ran_passed` None where the job does not say.
    """

    id: Annotated[int, "j.id"]
    repo: Annotated[str, "j.downstream_repo"]
    lane: Annotated[str, LANE]
    event: Annotated[str, "j.event_type"]
    pr: Annotated[int, "j.pr_number"]
    upstream: Annotated[str, "j.upstream_repo"]
    sha: Annotated[str, "j.pytorch_head_sha"]
    workflow: Annotated[str, "j.workflow_name"]
    job_name: Annotated[str, "j.job_name"]
    run_id: Annotated[str, "j.run_id"]
    workflow_id: Annotated[int, "j.workflow_id"]
    job_id: Annotated[int, "j.job_id"]
    run: Annotated[str, "coalesce(d.run, '')"]
    attempt: Annotated[int, "j.run_attempt"]
    status: Annotated[str, "j.status"]
    conclusion: Annotated[str, "j.conclusion"]
    started_at: Annotated[str, "j.started_at"]
    completed_at: Annotated[str, "j.completed_at"]
    duration_s: Annotated[float, "j.duration_seconds"]
    queue_s: Annotated[float | None, "j.queue_time"]
    total: Annotated[int, "j.total_tests"]
    passed: Annotated[int, "j.passed_tests"]
    failed: Annotated[int, "j.failed_tests"]
    skipped: Annotated[int, "j.skipped_tests"]
    device: Annotated[str, "coalesce(d.device, '')"]
    pytorch: Annotated[str, "coalesce(d.pytorch, '')"]
    stage: Annotated[int | None, "d.stage"]
    percent: Annotated[float | None, "d.percent"]
    cards: Annotated[int | None, "d.cards"]
    in_scope: Annotated[int | None, "d.in_scope"]
    selected: Annotated[int | None, "d.selected"]
    ran: Annotated[int | None, "d.ran"]
    ran_passed: Annotated[int | None, "d.passed"]
    in_scope_s: Annotated[float | None, "d.in_scope_seconds"]
    selected_s: Annotated[float | None, "d.selected_seconds"]
    ran_s: Annotated[float | None, "d.ran_seconds"]
    passed_s: Annotated[float | None, "d.passed_seconds"]
    first_failure_s: Annotated[float | None, "d.first_failure_seconds"]
    change_failed: Annotated[int | None, "d.change_failed"]
    change_caught: Annotated[int | None, "d.change_caught"]

    @property
    def rows_of(self) -> tuple[int, int, int]:
        """What its rows of tests are found by: workflow, attempt and job."""
        return self.workflow_id, self.attempt, self.job_id

    @property
    def values(self) -> dict[str, Value]:
        """The same for queries."""
        return dict(zip(("workflow", "attempt", "job"), self.rows_of, strict=True))

    @property
    def done(self) -> bool:
        """Whether it has completed."""
        return self.status == "completed"

    @property
    def green(self) -> bool:
        """Whether it has completed with success."""
        return self.done and self.conclusion == "success"


_TABLES = "FROM crcr_workflow_job_ranked AS j LEFT JOIN job_detail AS d ON d.dynamoKey = j.dynamoKey"
_NEWEST_FIRST = "ORDER BY j.started_at DESC, j.id DESC"


def chosen_jobs(database: Database, window: Window) -> list[Job]:
    """Every job of a window that was not superseded, the newest start first."""
    return records(database, Job, f"{CHOSEN} {_NEWEST_FIRST}", window.values)


def jobs_of_pull_request(database: Database, number: int) -> list[Job]:
    """Every job of a pull request that was not superseded, the newest start first."""
    source = f"{_TABLES} WHERE j.pr_number = :number AND NOT j.superseded {_NEWEST_FIRST}"
    return records(database, Job, source, {"number": number})


def jobs_with_rows(database: Database, jobs: Collection[Job]) -> set[tuple[int, int, int]]:
    """Which of some jobs brought rows of tests, by `rows_of`."""
    if not jobs:
        return set()
    rows = database.tuples(
        "SELECT DISTINCT workflow_id, workflow_run_attempt, job_id FROM job_card "  # noqa: S608  # whole numbers
        f"WHERE workflow_id IN ({listed(job.workflow_id for job in jobs)})"
    )
    return {(workflow, attempt, job) for workflow, attempt, job in rows}


def one_job(database: Database, number: int) -> Mapping[str, Any] | None:
    """A job's whole row of `crcr_workflow_job_ranked`, superseded or not; None where there is none."""
    rows = database.rows("SELECT * FROM crcr_workflow_job_ranked WHERE id = :number", {"number": number})
    return rows[0] if rows else None


def details(database: Database, number: int) -> Job | None:
    """A job, superseded or not, as the lists have it."""
    found = records(database, Job, f"{_TABLES} WHERE j.id = :number", {"number": number})
    return found[0] if found else None


def list_jobs(database: Database, *, limit: int, offset: int = 0) -> list[dict[str, Any]]:
    """The latest attempt of each job, whole rows, the newest start first."""
    return database.rows(
        "SELECT * FROM crcr_workflow_job_ranked WHERE NOT superseded "
        "ORDER BY started_at DESC, id DESC LIMIT :limit OFFSET :offset",
        {"limit": limit, "offset": offset},
    )


def count_jobs(database: Database) -> int:
    """How many jobs there are, superseded attempts left out."""
    (row,) = database.rows("SELECT count(*) AS jobs FROM crcr_workflow_job_ranked WHERE NOT superseded")
    return int(row["jobs"])


def attempts(database: Database, job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every attempt of the job `job` is one of, in order."""
    names = ("downstream_repo", "delivery_id", "workflow_name", "job_name", "run_id")
    same = " AND ".join(f"{name} = :{name}" for name in names)
    return database.rows(
        f"SELECT * FROM crcr_workflow_job_ranked WHERE {same} ORDER BY run_attempt, id",  # noqa: S608  # our names
        {name: job[name] for name in names},
    )


def job_before(database: Database, job: Mapping[str, Any]) -> int | None:
    """The newest completed job of the same name that started before this one, to compare it with."""
    names = ("downstream_repo", "workflow_name", "job_name", "event_type")
    same = " AND ".join(f"{name} = :{name}" for name in names)
    rows = database.rows(
        f"SELECT id FROM crcr_workflow_job_ranked WHERE {same} AND started_at < :started_at "  # noqa: S608  # our names
        "AND status = 'completed' AND NOT superseded ORDER BY started_at DESC, id DESC LIMIT 1",
        {name: job[name] for name in (*names, "started_at")},
    )
    return int(rows[0]["id"]) if rows else None


def newest_with_rows(database: Database, window: Window) -> Mapping[str, Any] | None:
    """The newest completed job of a window that brought rows of tests; None where none did."""
    rows = database.rows(
        f"""
        SELECT b.o_id AS o_id FROM {WINDOW_JOBS} AS b
        JOIN job_card AS c ON c.workflow_id = b.o_workflow AND c.workflow_run_attempt = b.o_attempt
            AND c.job_id = b.o_job
        WHERE b.o_status = 'completed' ORDER BY b.o_started DESC, b.o_id DESC LIMIT 1
        """,  # noqa: S608  # our names
        window.values,
    )
    return one_job(database, rows[0]["o_id"]) if rows else None
