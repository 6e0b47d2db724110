"""The routes over many runs: one test's history, the worst tests, cards, the roll-out, times and metrics."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel
from starlette.convertors import StringConvertor, register_url_convertor

from ci.hud.identity import key_of_test
from ci.hud.server.database import Database
from ci.hud.server.queries.by_day import verdicts_by_day
from ci.hud.server.queries.card_health import CardHealth, card_health
from ci.hud.server.queries.jobs import chosen_jobs
from ci.hud.server.queries.metrics import Metrics, metrics
from ci.hud.server.queries.one_test import TestHistory, history_of_test
from ci.hud.server.queries.rollout import LaneRollout, rollout
from ci.hud.server.queries.timing import Spread, lane_times
from ci.hud.server.queries.worst_tests import WorstTest, worst_tests
from ci.hud.server.read_api.parameters import Clock, Filters, Place

TestId = Annotated[
    str, Path(min_length=1, max_length=8192, description="canonical id, as `test_id` elsewhere")
]
Bad = Annotated[Literal["flaky", "failed", "hardware", "xpassed"], Query()]


class HistoryFilters(Filters):
    """Which runs a history is of; `place`: how many rows of the same id stand before it in a job."""

    days: Annotated[int, Query(ge=1, le=3650)] = 90
    place: Place = 0


class BadFilters(Filters):
    """Which tests: those that had a verdict most often."""

    verdict: Bad = "flaky"


class WorstTests(BaseModel):
    """The tests that had a verdict most often, at most 50 of `total`."""

    total: int
    tests: list[WorstTest]


class LaneSeconds(BaseModel):
    """How a lane's seconds are spread: duration, wait in the queue, time to signal."""

    repo: str
    lane: str
    jobs: int
    duration: Spread | None
    queue: Spread | None
    signal: Spread | None


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

    @router.get("/tests/{test_id:anything}")
    def history(test_id: TestId, filters: Annotated[HistoryFilters, Query()]) -> TestHistory:
        """A test's newest runs, at most 500, and its flake rate; empty where no run has it."""
        return history_of_test(database, key_of_test(test_id, filters.place), filters.window(clock()))

    @router.get("/durations")
    def durations(filters: Annotated[Filters, Query()]) -> list[LaneSeconds]:
        """Durations and times to signal of every lane."""
        return [
            LaneSeconds(
                repo=one.repo,
                lane=one.lane,
                jobs=len(one.jobs),
                duration=one.duration,
                queue=one.queue,
                signal=one.signal,
            )
            for one in lane_times(chosen_jobs(database, filters.window(clock())))
        ]

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
