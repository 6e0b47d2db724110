"""The parameters of routes and pages, with their bounds: whatever else is asked for is a 422."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from fastapi import HTTPException, Path, Query, Response
from pydantic import BaseModel, ConfigDict

from ci.hud.server.http import HEADERS
from ci.hud.server.queries.jobs import one_job
from ci.hud.server.queries.window import Window
from ci.store.database import Database

Clock = Callable[[], float]

JobNumber = Annotated[int, Path(ge=1, le=2**63 - 1, description="run, by its `id` in /api/runs")]
Limit = Annotated[int, Query(ge=1, le=1000, description="maximum number of rows")]
Offset = Annotated[int, Query(ge=0, le=10**9, description="number of rows to skip")]
Days = Annotated[int, Query(ge=1, le=3650, description="only jobs that started within so many days")]
Number = Annotated[int, Query(ge=0, le=2**63 - 1, description="run, by its `id` in /api/runs")]
Key = Annotated[int, Query(ge=1, le=2**63 - 1, description="test, by its `test_key`")]
Place = Annotated[int, Query(ge=0, le=10**6, description="index among the rows of the same test id, from 0")]
Verdict = Annotated[
    Literal[
        "",
        "passed",
        "failed",
        "flaky",
        "skipped",
        "xfailed",
        "xpassed",
        "hardware",
        "infrastructure",
        "not_run",
    ],
    Query(description="only tests with this verdict; empty: all"),
]
Order = Annotated[Literal["verdict", "time"], Query(description="problems first, or slowest first")]
Text = Annotated[str, Query(max_length=8192)]
PrNumber = Annotated[int, Path(ge=1, le=2**53 - 1, description="number of the upstream pull request")]


class Filters(BaseModel):
    """Which jobs are asked about; an empty text chooses all."""

    model_config = ConfigDict(frozen=True)

    repo: Annotated[str, Query(max_length=512)] = ""
    lane: Annotated[str, Query(max_length=8192)] = ""
    event: Annotated[str, Query(max_length=64)] = ""
    days: Days = 30

    def window(self, now: float) -> Window:
        """The window these mean at a time."""
        return Window(now=now, days=self.days, repo=self.repo, lane=self.lane, event=self.event)


class BadFilters(Filters):
    """Which tests: those that had a verdict most often."""

    verdict: Annotated[Literal["flaky", "failed", "hardware", "xpassed"], Query()] = "flaky"


class ChosenTests(BaseModel):
    """Which tests of a run, in which order; an empty text chooses all."""

    verdict: Verdict = ""
    file: Text = ""
    card: Text = ""
    order: Order = "verdict"
    offset: Offset = 0


def found_job(database: Database, number: int) -> Mapping[str, Any]:
    """A job's row.

    Raises:
        HTTPException: 404, there is none.
    """
    job = one_job(database, number)
    if job is None:
        raise HTTPException(404, "there is no such run")
    return job


def plain_headers(response: Response) -> None:
    """What every answer says of itself."""
    response.headers.update(HEADERS)
