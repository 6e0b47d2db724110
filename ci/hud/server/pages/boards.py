"""The pages over many jobs: the grid, and two runs side by side."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from pydantic import BaseModel

from ci.hud.server.database import Database
from ci.hud.server.pages import jobs
from ci.hud.server.pages.one_run import found_job
from ci.hud.server.pages.render import page
from ci.hud.server.pages.summary import cell
from ci.hud.server.pages.words import CONCLUSIONS, RUNNING
from ci.hud.server.queries.choices import form
from ci.hud.server.queries.compare import KINDS, compare_runs
from ci.hud.server.queries.grid import grid
from ci.hud.server.queries.jobs import chosen_jobs, list_jobs
from ci.hud.server.read_api.parameters import Clock, Filters, Number, Offset, Text

ROWS, CHANGES, CHOICES = 40, 50, 200


class GridFilters(Filters):
    """Which jobs the grid shows."""

    sha: Text = ""
    pr: Annotated[int, Query(ge=0, le=2**53 - 1)] = 0
    offset: Offset = 0


class Sides(BaseModel):
    """The two runs; 0 where one is still to choose."""

    before: Number = 0
    after: Number = 0
    kind: Literal[
        "new failures", "fixed", "flaky", "slower", "faster", "appeared", "vanished", "still failing"
    ] = "new failures"
    offset: Offset = 0


def add_routes(router: APIRouter, database: Database, clock: Clock) -> None:
    """Add both pages."""

    @router.get("/grid")
    def show_grid(filters: Annotated[GridFilters, Query()]) -> HTMLResponse:
        window = filters.window(clock())
        found = [
            job
            for job in chosen_jobs(database, window)
            if filters.sha in {"", job.sha} and filters.pr in {0, job.pr}
        ]
        board = grid(found, limit=ROWS, offset=filters.offset)
        return page(
            "grid.html",
            here="/grid",
            form=form(database, window),
            grid=board,
            rows=[(row, [job and cell(job) for job in row.jobs]) for row in board.rows],
            chosen=filters.model_dump(exclude={"offset"}, exclude_defaults=True),
            sha=filters.sha,
            pr=filters.pr,
            offset=filters.offset,
            step=ROWS,
            marks=[*CONCLUSIONS.values(), RUNNING],
        )

    @router.get("/compare")
    def show_compare(sides: Annotated[Sides, Query()]) -> HTMLResponse:
        choices = [jobs.view(job) for job in list_jobs(database, limit=CHOICES)]
        if not sides.before or not sides.after:
            return page("compare_choose.html", here="/runs", choices=choices, sides=sides)
        before, after = found_job(database, sides.before), found_job(database, sides.after)
        found = compare_runs(database, before, after, kind=sides.kind, limit=CHANGES, offset=sides.offset)
        return page(
            "compare.html",
            here="/runs",
            sides=sides,
            before=jobs.view(before),
            after=jobs.view(after),
            found=found,
            kinds=KINDS,
            step=CHANGES,
        )
