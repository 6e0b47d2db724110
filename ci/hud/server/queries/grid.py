"""The grid of jobs: a row a commit (with its pull request), a column a job; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ci.hud.server.queries.jobs import Job

COLUMNS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A job of a back end, by its workflow and name."""

    repo: str
    workflow: str
    job_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRow:
    """A commit of a pull request (its number, else 0) and its newest job in each column, or None."""

    sha: str
    pr: int
    upstream: str
    newest: str
    jobs: Sequence[Job | None]


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
    by_commit: dict[tuple[int, str], list[Job]] = {}
    for job in jobs:
        by_commit.setdefault((job.pr, job.sha), []).append(job)
    chosen = list(by_commit.items())[offset : offset + limit]
    columns = sorted(
        {_column(job) for _, group in chosen for job in group},
        key=lambda one: (one.repo, one.workflow, one.job_name),
    )
    rows = [_row(pr, sha, group, columns[:COLUMNS]) for (pr, sha), group in chosen]
    return Grid(
        columns=columns[:COLUMNS], rows=rows, total=len(by_commit), hidden=max(0, len(columns) - COLUMNS)
    )


def _row(pr: int, sha: str, jobs: Sequence[Job], columns: Sequence[Column]) -> GridRow:
    newest: dict[Column, Job] = {}
    for job in jobs:
        newest.setdefault(_column(job), job)
    return GridRow(
        sha=sha,
        pr=pr,
        upstream=jobs[0].upstream,
        newest=jobs[0].started_at,
        jobs=[newest.get(column) for column in columns],
    )


def _column(job: Job) -> Column:
    return Column(repo=job.repo, workflow=job.workflow, job_name=job.job_name)
