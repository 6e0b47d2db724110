"""The pages that lead to all others: the summary and the list of runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from ci.hud.server.database import Database
from ci.hud.server.pages import jobs, summary
from ci.hud.server.pages.render import page
from ci.hud.server.queries.choices import form
from ci.hud.server.queries.jobs import chosen_jobs, count_jobs, list_jobs
from ci.hud.server.read_api.parameters import Clock, Filters, Offset

ROWS, LANES = 100, 60


def add_routes(router: APIRouter, database: Database, clock: Clock) -> None:
    """Add the summary and the list of runs."""

    @router.get("/")
    def show_summary(filters: Annotated[Filters, Query()]) -> HTMLResponse:
        window = filters.window(clock())
        back_ends = summary.back_ends(chosen_jobs(database, window))
        return page(
            "summary.html",
            here="/",
            form=form(database, window),
            back_ends=back_ends,
            strip=summary.STRIP,
            most=LANES,
        )

    @router.get("/runs")
    def show_runs(offset: Offset = 0) -> HTMLResponse:
        found = list_jobs(database, limit=ROWS, offset=offset)
        return page(
            "runs.html",
            here="/runs",
            jobs=[jobs.view(job) for job in found],
            total=count_jobs(database),
            offset=offset,
            step=ROWS,
        )
