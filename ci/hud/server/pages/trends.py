"""The pages over time: durations, cards, the roll-out and the metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from ci.hud.server.database import Database
from ci.hud.server.pages import trend_charts
from ci.hud.server.pages.render import page
from ci.hud.server.queries.by_day import verdicts_by_day
from ci.hud.server.queries.card_health import card_health
from ci.hud.server.queries.choices import form
from ci.hud.server.queries.jobs import Job, chosen_jobs, newest_with_rows
from ci.hud.server.queries.metrics import metrics
from ci.hud.server.queries.rollout import rollout
from ci.hud.server.queries.tests_of_run import files_of_run, run_tests
from ci.hud.server.queries.timing import LaneTimes, lane_times
from ci.hud.server.read_api.parameters import Clock, Filters

SLOWEST, LANES, CARDS = 20, 12, 200


def add_routes(router: APIRouter, database: Database, clock: Clock) -> None:
    """Add the four pages."""
    _add_times(router, database, clock)

    @router.get("/cards")
    def show_cards(filters: Annotated[Filters, Query()]) -> HTMLResponse:
        window = filters.window(clock())
        cards = card_health(verdicts_by_day(database, window, cards=True))
        days = trend_charts.days_of(window)
        return page(
            "cards.html",
            here="/cards",
            form=form(database, window),
            cards=[(one, trend_charts.card_strip(one, days)) for one in cards[:CARDS]],
            total=len(cards),
            days=days,
        )

    @router.get("/rollout")
    def show_rollout(filters: Annotated[Filters, Query()]) -> HTMLResponse:
        window = filters.window(clock())
        lanes = rollout(chosen_jobs(database, window))
        return page(
            "rollout.html",
            here="/rollout",
            form=form(database, window),
            lanes=[(one, trend_charts.rollout_charts(one)) for one in lanes[:LANES]],
            hidden=max(0, len(lanes) - LANES),
        )

    @router.get("/metrics")
    def show_metrics(filters: Annotated[Filters, Query()]) -> HTMLResponse:
        now = clock()
        window = filters.window(now)
        found = metrics(chosen_jobs(database, window), verdicts_by_day(database, window), now)
        return page(
            "metrics.html",
            here="/metrics",
            form=form(database, window),
            found=found,
            flaky=trend_charts.flaky_chart(found),
            passing=trend_charts.pass_chart(found),
        )


def _add_times(router: APIRouter, database: Database, clock: Clock) -> None:
    @router.get("/durations")
    def show_durations(filters: Annotated[Filters, Query()]) -> HTMLResponse:
        window = filters.window(clock())
        jobs = chosen_jobs(database, window)
        lanes = _longest_first(lane_times(jobs))
        newest = newest_with_rows(database, window)
        return page(
            "durations.html",
            here="/durations",
            form=form(database, window),
            lanes=[(one, trend_charts.times_chart(one)) for one in lanes[:LANES]],
            hidden=max(0, len(lanes) - LANES),
            newest=newest,
            files=files_of_run(database, newest, limit=SLOWEST) if newest else [],
            tests=run_tests(database, newest, limit=SLOWEST, order="time")[1] if newest else [],
            jobs=_completed(jobs),
        )


def _longest_first(lanes: Sequence[LaneTimes]) -> list[LaneTimes]:
    return sorted(lanes, key=lambda one: -(one.duration.median if one.duration else 0.0))


def _completed(jobs: Sequence[Job]) -> int:
    return sum(job.done for job in jobs)
