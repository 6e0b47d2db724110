"""The routes of HUD's nine queries, under HUD's names and with HUD's numbers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from ci.hud.server.database import Database
from ci.hud.server.queries import hud_jobs, hud_numbers
from ci.hud.server.read_api.parameters import Clock, Days, Minutes, Offset, PerPage, Pr, Repo

PrNumbers = Annotated[
    list[Annotated[int, Query(ge=-(2**53), le=2**53)]],
    Query(alias="prNums", max_length=500, description="numbers of upstream pull requests"),
]


def add_hud_routes(router: APIRouter, database: Database, clock: Clock) -> None:
    """Add the nine routes."""
    _add_numbers(router, database, clock)
    _add_jobs(router, database, clock)


def _add_numbers(router: APIRouter, database: Database, clock: Clock) -> None:
    @router.get("/crcr/summary")
    def summary(days: Days = 7) -> list[hud_numbers.RepoSummary]:
        """Each repository's pull-request jobs, the worst pass rate first.

        As HUD does: of each (repository, pull request, job name) the completed row of the highest attempt, so
        a new push replaces what the push before came to. Expected failures of pytorch/crcr-test count as
        successes. Our pages count every job that no later attempt superseded.
        """
        return hud_numbers.summary(database, now=clock(), days=days)

    @router.get("/crcr/nightly_summary")
    def nightly_summary(days: Days = 7) -> list[hud_numbers.NightlySummary]:
        """Each repository's nightly jobs; as HUD does, superseded attempts count too."""
        return hud_numbers.nightly_summary(database, now=clock(), days=days)

    @router.get("/crcr/backend_summary")
    def backend_summary(repo: Repo, days: Days = 7) -> hud_numbers.BackendSummary:
        """One repository's pull-request jobs; as HUD does, superseded attempts count too."""
        return hud_numbers.backend_summary(database, now=clock(), repo=repo, days=days)

    @router.get("/crcr/success_rate")
    def success_rate(days: Days = 7) -> list[hud_numbers.SuccessRate]:
        """Jobs by day and repository; as HUD does, superseded attempts count too."""
        return hud_numbers.success_rate(database, now=clock(), days=days)

    @router.get("/crcr/health_last_prs")
    def health_last_prs(
        window_minutes: Minutes = 1440, stale_after_minutes: Minutes = 1455
    ) -> list[hud_numbers.HealthOfPr]:
        """HUD's own probes (pytorch/crcr-test) by pull request, the latest first."""
        return hud_numbers.health_last_prs(
            database, now=clock(), window_minutes=window_minutes, stale_after_minutes=stale_after_minutes
        )


def _add_jobs(router: APIRouter, database: Database, clock: Clock) -> None:
    @router.get("/crcr/backend_dashboard")
    def backend_dashboard(
        repo: Repo, days: Days = 7, per_page: PerPage = 50, offset: Offset = 0
    ) -> list[hud_jobs.BackendJob]:
        """Every row of a page of pull requests, the newest first; superseded attempts are there too."""
        return hud_jobs.backend_dashboard(
            database, now=clock(), repo=repo, days=days, per_page=per_page, offset=offset
        )

    @router.get("/crcr/nightly_dashboard")
    def nightly_dashboard(repo: Repo, days: Days = 7) -> list[hud_jobs.NightlyJob]:
        """Whole nightlies, of each (commit, run, job name) the highest attempt; at most 500 rows."""
        return hud_jobs.nightly_dashboard(database, now=clock(), repo=repo, days=days)

    @router.get("/crcr/pr_results")
    def pr_results(pr: Pr) -> list[hud_jobs.PrResult]:
        """Every row of one pull request, at most 100; superseded attempts are there too."""
        return hud_jobs.pr_results(database, pr=pr)

    @router.get("/crcr/hud_results")
    def hud_results(numbers: PrNumbers) -> list[hud_jobs.HudResult]:
        """Every row of some pull requests, without HUD's own probes; superseded attempts are there too."""
        return hud_jobs.hud_results(database, numbers=numbers)
