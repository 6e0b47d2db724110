"""The routes of the read API, under `/api`: one run, many runs, and tests over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Path, Query
from pydantic import BaseModel, ConfigDict
from starlette.convertors import StringConvertor, register_url_convertor

from ci.hud.server.parameters import (
    BadFilters,
    ChosenTests,
    Clock,
    Filters,
    JobNumber,
    Limit,
    Offset,
    Place,
    PrNumber,
    found_job,
    plain_headers,
)
from ci.hud.server.queries.card_health import CardHealth, card_health, verdicts_by_day
from ci.hud.server.queries.compare import Comparison, Kind, compare_runs
from ci.hud.server.queries.failing import Failure, PullRequest, failing_now, newest_of_lanes, pull_request
from ci.hud.server.queries.history import TestHistory, WorstTest, history_of_test, worst_tests
from ci.hud.server.queries.jobs import Job, attempts, chosen_jobs, count_jobs, details, list_jobs
from ci.hud.server.queries.metrics import Metrics, metrics
from ci.hud.server.queries.one_run import CardVerdicts, Problem, cards_of_run, problems_of_run
from ci.hud.server.queries.rollout import LaneRollout, rollout
from ci.hud.server.queries.tests_of_run import TestRow, run_tests
from ci.hud.server.queries.timing import LaneTimes, lane_times
from ci.store.database import Database
from ci.store.identity import key_of_test
from ci.store.store import Store

NOT_FOUND: dict[int | str, dict[str, Any]] = {404: {"description": "there is no such run"}}
KindAsked = Annotated[Kind, Query(description="kind of changes to list")]
RunNumber = Annotated[int, Query(ge=1, le=2**63 - 1, description="run, by its `id` in /api/runs")]
TestId = Annotated[str, Path(min_length=1, max_length=8192, description="test id")]


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


class PageOfTests(ChosenTests):
    """The same, and how many."""

    limit: Limit = 100


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
        job, said = found_job(database, number), details(database, number)
        if said is None:
            raise HTTPException(404, "there is no such run")
        tries = [RunRow(**row) for row in attempts(database, job)]
        return Run(run=RunRow(**job), details=said, attempts=tries, cards=cards_of_run(database, job))

    @router.get("/runs/{number}/failures", responses=NOT_FOUND)
    def failures(number: JobNumber) -> Failures:
        """What went wrong in a run, by verdict, cause and message, with the cards it happened on."""
        return Failures(problems=problems_of_run(database, found_job(database, number)))

    @router.get("/runs/{number}/tests", responses=NOT_FOUND)
    def tests(number: JobNumber, chosen: Annotated[PageOfTests, Query()]) -> Tests:
        """The tests of a run, a page of them."""
        total, found = run_tests(database, found_job(database, number), **chosen.model_dump())
        return Tests(total=total, tests=found)

    @router.get("/compare", responses=NOT_FOUND)
    def compare(
        *,
        before: RunNumber,
        after: RunNumber,
        kind: KindAsked = "newly failing",
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> Comparison:
        """Compare two runs: counts of every kind of change, and a page of the changes of one kind."""
        sides = found_job(database, before), found_job(database, after)
        return compare_runs(database, *sides, kind=kind, limit=limit, offset=offset)


class HistoryFilters(Filters):
    """Which runs a history is of; `place`: how many rows of the same id stand before it in a job."""

    days: Annotated[int, Query(ge=1, le=3650)] = 90
    place: Place = 0


class WorstTests(BaseModel):
    """The tests that had a verdict most often, at most 50 of `total`."""

    total: int
    tests: list[WorstTest]


class _Anything(StringConvertor):
    # Starlette's own `path` ends at a newline, which ids of parametrized tests may hold.
    regex = "(?s:.*)"


def add_routes_over_time(router: APIRouter, database: Database, clock: Clock) -> None:
    """Add them. In all of them attempts that a later one superseded are counted nowhere."""
    register_url_convertor("anything", _Anything())

    @router.get("/tests")
    def tests(filters: Annotated[BadFilters, Query()]) -> WorstTests:
        """The tests that were flaky (or failed, …) in most runs of the window."""
        total, found = worst_tests(database, filters.window(clock()), filters.verdict)
        return WorstTests(total=total, tests=found)

    @router.get("/failing")
    def failing(filters: Annotated[Filters, Query()]) -> list[Failure]:
        """What fails in the newest run of every lane, the same failure once, with some tests of each."""
        jobs = chosen_jobs(database, filters.window(clock()))
        return failing_now(database, newest_of_lanes(database, jobs))

    @router.get("/pr/{number}")
    def pull(number: PrNumber) -> PullRequest:
        """A pull request's jobs and failures, and which of them trunk has too."""
        return pull_request(database, number, clock())

    @router.get("/tests/{test_id:anything}")
    def history(test_id: TestId, filters: Annotated[HistoryFilters, Query()]) -> TestHistory:
        """A test's newest runs, at most 500, and its flake rate; empty where no run has it."""
        return history_of_test(database, key_of_test(test_id, filters.place), filters.window(clock()))

    @router.get("/durations")
    def durations(filters: Annotated[Filters, Query()]) -> list[LaneTimes]:
        """Durations and times to signal of every lane."""
        return lane_times(chosen_jobs(database, filters.window(clock())))

    @router.get("/cards")
    def cards(filters: Annotated[Filters, Query()]) -> list[CardHealth]:
        """How well each card is, those with the largest share of hardware verdicts first."""
        return card_health(verdicts_by_day(database, filters.window(clock()), cards=True))

    @router.get("/rollout")
    def share(filters: Annotated[Filters, Query()]) -> list[LaneRollout]:
        """Of every lane the shares of what is in scope that are selected, ran and passed, run by run."""
        return rollout(chosen_jobs(database, filters.window(clock())))

    @router.get("/metrics")
    def judge(filters: Annotated[Filters, Query()]) -> Metrics:
        """Flaky share, pass rates, cycle time of a commit, outages and recovery."""
        now = clock()
        window = filters.window(now)
        return metrics(chosen_jobs(database, window), verdicts_by_day(database, window), now)


def add_read_api(app: FastAPI, store: Store, clock: Clock) -> None:
    """Add every route that reads.

    Args:
        app: the server.
        store: what is read.
        clock: seconds since the epoch; windows of days end there.
    """
    router = APIRouter(prefix="/api", dependencies=[Depends(plain_headers)])
    add_run_routes(router, store.database)
    add_routes_over_time(router, store.database, clock)
    app.include_router(router)
