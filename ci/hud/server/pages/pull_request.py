"""A pull request's page: its jobs, what failed, and which failures trunk has too."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException
from fastapi.responses import HTMLResponse

from ci.hud.server.pages import jobs
from ci.hud.server.pages.one_run import command_of
from ci.hud.server.pages.render import page
from ci.hud.server.parameters import Clock, PrNumber, found_job
from ci.hud.server.queries.failing import PullRequestTest, pull_request
from ci.record.reproduce_line import attempt_of
from ci.store.database import Database

SHOWN = 200


def add_routes(router: APIRouter, database: Database, clock: Clock) -> None:
    """Add the page."""

    @router.get("/pr/{number}")
    def show_pull_request(number: PrNumber) -> HTMLResponse:
        found = pull_request(database, number, clock())
        if not found.jobs:
            raise HTTPException(404, "no job of this pull request was reported")
        rows = {job.id: found_job(database, job.id) for job in found.jobs}

        def command(test: PullRequestTest) -> str:
            row = rows[test.job.id]
            attempt = attempt_of(test.verdict, test.attempts)
            return command_of(row, jobs.details_of(row["environment"]), test.test_id, attempt=attempt)

        return page(
            "pull_request.html",
            here="/grid",
            found=found,
            views=[jobs.view(row) for row in rows.values()],
            shown=SHOWN,
            command=command,
        )
