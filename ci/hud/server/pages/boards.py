"""The pages over many jobs: the summary, the list of runs, the grid, and two runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from pydantic import BaseModel

from ci.hud.server.pages import jobs
from ci.hud.server.pages.render import CONCLUSIONS, RUNNING, Mark, conclusion_mark, page
from ci.hud.server.parameters import Clock, Filters, Number, Offset, Text, found_job
from ci.hud.server.queries.compare import KINDS, Kind, compare_runs
from ci.hud.server.queries.jobs import Job, chosen_jobs, count_jobs, list_jobs
from ci.hud.server.queries.rows import grouped
from ci.hud.server.queries.window import form
from ci.store.database import Database

ROWS, CHANGES, CHOICES = 40, 50, 200
COLUMNS = 60
RUNS, LANES = 100, 60
STRIP = 30


class GridFilters(Filters):
    """Which jobs the grid shows."""

    sha: Text = ""
    pr: Annotated[int, Query(ge=0, le=2**53 - 1)] = 0
    offset: Offset = 0


class Sides(BaseModel):
    """The two runs; 0 where one is still to choose."""

    before: Number = 0
    after: Number = 0
    kind: Kind = "newly failing"
    offset: Offset = 0


def add_routes(router: APIRouter, database: Database, clock: Clock) -> None:
    """Add the summary, the list of runs, the grid and the comparison."""

    @router.get("/")
    def show_summary(filters: Annotated[Filters, Query()]) -> HTMLResponse:
        window = filters.window(clock())
        return page(
            "summary.html",
            here="/",
            form=form(database, window),
            back_ends=back_ends(chosen_jobs(database, window)),
            strip=STRIP,
            most=LANES,
        )

    @router.get("/runs")
    def show_runs(offset: Offset = 0) -> HTMLResponse:
        found = list_jobs(database, limit=RUNS, offset=offset)
        return page(
            "runs.html",
            here="/runs",
            jobs=[jobs.view(job) for job in found],
            total=count_jobs(database),
            offset=offset,
            step=RUNS,
        )

    @router.get("/grid")
    def show_grid(filters: Annotated[GridFilters, Query()]) -> HTMLResponse:
        window = filters.window(clock())
        found = [
            job
            for job in chosen_jobs(database, window)
            if filters.sha in {"", job.sha} and filters.pr in {0, job.pr}
        ]
        return page(
            "grid.html",
            here="/grid",
            form=form(database, window),
            grid=grid(found, limit=ROWS, offset=filters.offset),
            filters=filters,
            chosen=filters.model_dump(exclude={"offset"}, exclude_defaults=True),
            step=ROWS,
            marks=[*CONCLUSIONS.values(), RUNNING],
        )

    @router.get("/compare")
    def show_compare(sides: Annotated[Sides, Query()]) -> HTMLResponse:
        if not sides.before or not sides.after:
            choices = [jobs.view(job) for job in list_jobs(database, limit=CHOICES)]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One job in a strip of jobs."""

    number: int
    mark: Mark
    title: str


class Column(NamedTuple):
    """A job of a back end, by its workflow and name."""

    repo: str
    workflow: str
    job_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRow:
    """A commit of a pull request (its number, else 0) and its newest job in each column, or None.

    Attributes:
        version: of PyTorch, where a job says it.
        green: how many of its jobs succeeded.
        ran: of how many.
    """

    sha: str
    pr: int
    newest: str
    version: str
    green: int
    ran: int
    cells: Sequence[Cell | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A page of the grid; `total` rows there are in all, `hidden` columns are left out."""

    columns: Sequence[Column]
    rows: Sequence[GridRow]
    total: int
    hidden: int


def grid(jobs: Sequence[Job], *, limit: int, offset: int = 0) -> Grid:
    """The grid of jobs, commits with the newest start first.

    Args:
        jobs: the newest first, superseded attempts left out.
        limit: rows at most.
        offset: rows left out before.
    """
    by_commit = grouped(jobs, lambda job: (job.pr, job.sha))
    chosen = list(by_commit.items())[offset : offset + limit]
    columns = sorted({_column(job) for _, group in chosen for job in group})
    return Grid(
        columns=columns[:COLUMNS],
        rows=[_row(pr, sha, group, columns[:COLUMNS]) for (pr, sha), group in chosen],
        total=len(by_commit),
        hidden=max(0, len(columns) - COLUMNS),
    )


def _row(pr: int, sha: str, jobs: Sequence[Job], columns: Sequence[Column]) -> GridRow:
    # Of the jobs of a column the newest, which comes first, is the last that is put in.
    newest = {_column(job): job for job in reversed(jobs)}
    return GridRow(
        sha=sha,
        pr=pr,
        newest=jobs[0].started_at,
        version=next((job.pytorch for job in jobs if job.pytorch), ""),
        green=sum(job.green for job in newest.values()),
        ran=len(newest),
        cells=[cell(newest[column]) if column in newest else None for column in columns],
    )


def _column(job: Job) -> Column:
    return Column(job.repo, job.workflow, job.job_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A lane of a back end.

    Attributes:
        name: of the lane.
        latest: its newest job.
        strip: its newest jobs, the oldest first.
        successes: of its completed jobs.
        completed: how many of its jobs have completed.
        seconds: the median duration of the completed; None where there is none.
        last_green: when its newest success started; empty where there is none.
    """

    name: str
    latest: Job
    strip: Sequence[Cell]
    successes: int
    completed: int
    seconds: float | None
    last_green: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackEnd:
    """A repository that reports, with its lanes: first those whose newest job is not green."""

    repo: str
    lanes: Sequence[Lane]
    successes: int
    completed: int
    pull_requests: int


def back_ends(jobs: Sequence[Job]) -> list[BackEnd]:
    """The back ends of jobs, those first where something is not green.

    Args:
        jobs: the newest first, superseded attempts left out.
    """
    made = [_back_end(repo, own) for repo, own in grouped(jobs, lambda job: job.repo).items()]
    return sorted(made, key=lambda one: (all(lane.latest.green for lane in one.lanes), one.repo))


def _back_end(repo: str, jobs: Sequence[Job]) -> BackEnd:
    lanes = [_lane(name, own) for name, own in grouped(jobs, lambda job: job.lane).items()]
    return BackEnd(
        repo=repo,
        lanes=sorted(lanes, key=lambda lane: (lane.latest.green, lane.name)),
        successes=sum(lane.successes for lane in lanes),
        completed=sum(lane.completed for lane in lanes),
        pull_requests=len({job.pr for job in jobs if job.pr}),
    )


def _lane(name: str, jobs: Sequence[Job]) -> Lane:
    completed = [job for job in jobs if job.done]
    times = [job.duration_s for job in completed if job.completed_at]
    return Lane(
        name=name,
        latest=jobs[0],
        strip=[cell(job) for job in reversed(jobs[:STRIP])],
        successes=sum(job.green for job in completed),
        completed=len(completed),
        seconds=median(times) if times else None,
        last_green=next((job.started_at for job in jobs if job.green), ""),
    )


def cell(job: Job) -> Cell:
    """A job as a cell of a strip."""
    mark = conclusion_mark(job.status, job.conclusion)
    name = job.run or f"{job.workflow} / {job.job_name}"
    counts = f", {job.failed:,} of {job.total:,} tests failed" if job.total else ""
    return Cell(number=job.id, mark=mark, title=f"{mark.word}: {name[:200]}, {job.started_at[:16]}{counts}")
