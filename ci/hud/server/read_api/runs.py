"""The routes of runs: the list, one run, its failures and tests, and two of them side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, ConfigDict

from ci.hud.server.database import Database
from ci.hud.server.queries.compare import Comparison, compare_runs
from ci.hud.server.queries.failures import CardVerdicts, Problem, cards_of_run, problems_of_run
from ci.hud.server.queries.jobs import Job, attempts, count_jobs, details, list_jobs, one_job
from ci.hud.server.queries.tests_of_run import TestRow, run_tests
from ci.hud.server.read_api.parameters import JobNumber, Limit, Offset, Text, Verdict

NOT_FOUND: dict[int | str, dict[str, Any]] = {404: {"description": "there is no such run"}}
Order = Annotated[Literal["verdict", "time"], Query(description="problems first, or the slowest first")]
Kind = Annotated[
    Literal["new failures", "fixed", "flaky", "slower", "faster", "appeared", "vanished", "still failing"],
    Query(description="whose changes are given"),
]
RunNumber = Annotated[int, Query(ge=1, le=2**63 - 1, description="of a run, as `id` in /api/runs")]


class RunRow(BaseModel):
    """A row of `crcr_workflow_job` with HUD's column names; `id`, `job_id` and `superseded` are ours."""

    model_config = ConfigDict(frozen=True)

    id: int
    dynamoKey: str  # noqa: N815  # HUD's name
    status: str
    conclusion: str
    downstream_repo: str
    repository_full_name: str
    downstream_repo_level: str
    upstream_repo: str
    pr_number: int
    pytorch_head_sha: str
    delivery_id: str
    event_type: str
    workflow_name: str
    job_name: str
    check_run_id: str
    run_id: str
    run_attempt: int
    job_id: int
    superseded: bool
    started_at: str
    completed_at: str
    duration_seconds: float
    queue_time: float | None
    execution_time: float | None
    total_tests: int
    passed_tests: int
    failed_tests: int
    skipped_tests: int
    failed_tests_json: str
    workflow_run_url: str
    artifact_url: str
    environment: str


class Runs(BaseModel):
    """A page of runs; `total` are all there are."""

    total: int
    runs: list[RunRow]


class Run(BaseModel):
    """A run, what it says of itself, and its attempts; no verdicts where only counts were reported."""

    run: RunRow
    details: Job
    attempts: list[RunRow]
    cards: list[CardVerdicts]


class Failures(BaseModel):
    """What needs a look in a run, failures first; at most 200 groups with five examples each."""

    problems: Sequence[Problem]


class Tests(BaseModel):
    """A page of a run's tests; `total` are all that match."""

    total: int
    tests: Sequence[TestRow]


def add_run_routes(router: APIRouter, database: Database) -> None:
    """Add the routes of runs."""

    @router.get("/runs")
    def runs(limit: Limit = 100, offset: Offset = 0) -> Runs:
        """The latest attempt of each job, the newest start first, with HUD's column names."""
        found = list_jobs(database, limit=limit, offset=offset)
        return Runs(total=count_jobs(database), runs=[RunRow(**row) for row in found])

    @router.get("/runs/{number}", responses=NOT_FOUND)
    def run(number: JobNumber) -> Run:
        """One run, superseded or not."""
        job, said = _job(database, number), details(database, number)
        if said is None:
            raise HTTPException(404, "there is no such run")
        tries = [RunRow(**row) for row in attempts(database, job)]
        return Run(run=RunRow(**job), details=said, attempts=tries, cards=cards_of_run(database, job))

    @router.get("/runs/{number}/failures", responses=NOT_FOUND)
    def failures(number: JobNumber) -> Failures:
        """What went wrong in a run, by verdict, cause and message, with the cards it happened on."""
        return Failures(problems=problems_of_run(database, _job(database, number)))

    @router.get("/runs/{number}/tests", responses=NOT_FOUND)
    def tests(
        *,
        number: JobNumber,
        verdict: Verdict = "",
        file: Text = "",
        card: Text = "",
        order: Order = "verdict",
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> Tests:
        """The tests of a run, a page of them."""
        chosen = {"verdict": verdict, "file": file, "card": card}
        job = _job(database, number)
        total, found = run_tests(database, job, limit=limit, offset=offset, order=order, **chosen)
        return Tests(total=total, tests=found)

    @router.get("/compare", responses=NOT_FOUND)
    def compare(
        *,
        before: RunNumber,
        after: RunNumber,
        kind: Kind = "new failures",
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> Comparison:
        """Two runs side by side: counts of every kind of change, and a page of the changes of one kind."""
        sides = _job(database, before), _job(database, after)
        return compare_runs(database, *sides, kind=kind, limit=limit, offset=offset)


def _job(database: Database, number: int) -> Mapping[str, Any]:
    job = one_job(database, number)
    if job is None:
        raise HTTPException(404, "there is no such run")
    return job
