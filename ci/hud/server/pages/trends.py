"""The pages over time, with their charts: tests, durations, cards, the roll-out and the metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from statistics import median
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import HTMLResponse

from ci.hud.callback import stored_epoch
from ci.hud.server.pages.charts import Chart, Series, spark, time_chart
from ci.hud.server.pages.render import page, percent
from ci.hud.server.parameters import BadFilters, Clock, Filters, Key, Place, Text
from ci.hud.server.queries.card_health import CardDay, CardHealth, card_health, verdicts_by_day
from ci.hud.server.queries.failing import RUNS as RUNS_BACK
from ci.hud.server.queries.failing import failing_now, newest_of_lanes, reliability_of_flaky
from ci.hud.server.queries.history import MOST, RUNS, VERDICTS, history_of_test, worst_tests
from ci.hud.server.queries.jobs import Job, chosen_jobs, newest_with_rows
from ci.hud.server.queries.metrics import Metrics, Week, metrics
from ci.hud.server.queries.rollout import LaneRollout, Share, Step, rollout
from ci.hud.server.queries.rows import grouped
from ci.hud.server.queries.tests_of_run import files_of_run, run_tests
from ci.hud.server.queries.timing import (
    LaneTimes,
    lane_times,
    signal_seconds,
    slower_files,
    slower_lane,
    slower_tests,
)
from ci.hud.server.queries.window import DAY_S, Window, form
from ci.store.database import Database, moment
from ci.store.identity import key_of_test

SLOWEST, LANES, CARDS = 20, 12, 200
PARTS = (("selected", "k-soft"), ("ran", "k-accent"), ("passed", "k-good"))
STRIP_DAYS = 90
# More of them one cannot tell apart.
MOST_POINTS = 120
SHOWN = 60


def add_routes(router: APIRouter, database: Database, clock: Clock) -> None:
    """Add the six pages."""
    _add_test_pages(router, database, clock)
    for name, shown in (
        ("cards", _cards),
        ("rollout", _rollout),
        ("metrics", _metrics),
        ("durations", _times),
    ):
        _add_page(router, database, clock, name=name, shown=shown)


def _add_page(
    router: APIRouter,
    database: Database,
    clock: Clock,
    *,
    name: str,
    shown: Callable[[Database, Window], dict[str, Any]],
) -> None:
    """Add a page with filters, whose template shows what is found of a window."""

    @router.get(f"/{name}", name=name)
    def show(filters: Annotated[Filters, Query()]) -> HTMLResponse:
        window = filters.window(clock())
        values = shown(database, window)
        return page(f"{name}.html", here=f"/{name}", form=form(database, window), **values)


def _cards(database: Database, window: Window) -> dict[str, Any]:
    cards = card_health(verdicts_by_day(database, window, cards=True))
    days = days_of(window)
    shown = [(one, card_strip(one, days)) for one in cards[:CARDS]]
    return {"cards": shown, "total": len(cards), "days": days}


def _rollout(database: Database, window: Window) -> dict[str, Any]:
    lanes = rollout(chosen_jobs(database, window))
    shown = [(one, rollout_charts(one)) for one in lanes[:LANES]]
    return {"lanes": shown, "hidden": max(0, len(lanes) - LANES)}


def _metrics(database: Database, window: Window) -> dict[str, Any]:
    found = metrics(chosen_jobs(database, window), verdicts_by_day(database, window), window.now)
    return {"found": found, "flaky": flaky_chart(found), "passing": pass_chart(found)}


def _times(database: Database, window: Window) -> dict[str, Any]:
    jobs = chosen_jobs(database, window)
    lanes = sorted(lane_times(jobs), key=lambda one: -(one.duration.median if one.duration else 0.0))
    newest = newest_with_rows(database, window)
    files = files_of_run(database, newest, limit=SLOWEST) if newest else []
    tests = run_tests(database, newest, limit=SLOWEST, order="time")[1] if newest else []
    before = runs_before(jobs, newest["id"]) if newest else []
    return {
        "lanes": [(one, times_chart(one), slower_lane(one)) for one in lanes[:LANES]],
        "hidden": max(0, len(lanes) - LANES),
        "newest": newest,
        "before": before,
        "files": files,
        "tests": tests,
        "slower": slower_files(database, {one.file: one.seconds for one in files}, before)
        | slower_tests(database, {one.test_key: one.seconds for one in tests}, before),
        "jobs": sum(job.done for job in jobs),
    }


def runs_before(jobs: Sequence[Job], number: int) -> list[Job]:
    """The newest completed runs of the same job and stage that came before one, the newest first."""
    one = next(job for job in jobs if job.id == number)
    same = (one.repo, one.workflow, one.job_name, one.stage, one.percent)
    return [
        job
        for job in jobs
        if job.done
        and job.started_at < one.started_at
        and (job.repo, job.workflow, job.job_name, job.stage, job.percent) == same
    ][:RUNS_BACK]


@dataclass(frozen=True, slots=True, kw_only=True)
class DayBox:
    """A day of a card: its style, and what it says when pointed at."""

    x: int
    kind: str
    height: float
    title: str


def times_chart(lane: LaneTimes) -> Chart | None:
    """Duration and time-to-signal of a lane's jobs over time; of many jobs the median of each day."""
    whole = [(stored_epoch(job.started_at), job.duration_s) for job in lane.timed if job.completed_at]
    signal = [
        (stored_epoch(job.started_at), seconds)
        for job in lane.timed
        if (seconds := signal_seconds(job)) is not None
    ]
    each = "each job" if len(whole) <= MOST_POINTS else "daily median"
    return time_chart(
        [
            Series(name=f"duration, {each}", kind="k-accent", points=_daily(whole)),
            Series(name="time to signal", kind="k-good", points=_daily(signal)),
        ],
        label=f"duration and time to signal of {lane.lane} over time",
        unit="s",
    )


def _daily(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    if len(points) <= MOST_POINTS:
        return list(points)
    by_day = grouped(points, lambda point: point[0] // DAY_S)
    return [(day * DAY_S, median(y for _, y in own)) for day, own in sorted(by_day.items())]


def rollout_charts(lane: LaneRollout) -> list[tuple[str, Chart | None]]:
    """The shares of a lane over time, by count and by seconds."""
    made = []
    for words, name in (("by number of tests", "tests"), ("by seconds of tests", "seconds")):
        series = [
            Series(name=part, kind=kind, points=_shares(lane.steps, name, part)) for part, kind in PARTS
        ]
        label = f"share of the tests in scope that is selected, ran and passed in {lane.lane}, {words}"
        made.append((words, time_chart(series, label=label, unit="%", top=1.0)))
    return made


def _shares(steps: Iterable[Step], name: str, part: str) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for step in steps:
        share: Share | None = getattr(step, name)
        value = share.of(part) if share is not None else None
        if value is not None:
            found.append((stored_epoch(step.started_at), value))
    return found


def flaky_chart(found: Metrics) -> Chart | None:
    """The flaky share of outcomes by week, beside its limit."""
    points = [(_at(week), week.flaky / week.ran) for week in found.weeks if week.ran]
    series = [Series(name="flaky share of outcomes", kind="flaky", points=points)]
    return time_chart(series, label="flaky share of outcomes by week", unit="%", limit=found.flaky_limit)


def pass_chart(found: Metrics) -> Chart | None:
    """The pass rates of jobs and tests by week."""
    jobs = [(_at(week), week.successes / week.jobs) for week in found.weeks if week.jobs]
    tests = [(_at(week), week.good / (week.good + week.bad)) for week in found.weeks if week.good + week.bad]
    series = [
        Series(name="jobs that succeeded", kind="k-accent", points=jobs),
        Series(name="tests as declared", kind="k-good", points=tests),
    ]
    return time_chart(series, label="pass rates of jobs and of tests by week", unit="%", top=1.0)


def days_of(window: Window) -> list[str]:
    """The newest days of a window (UTC), at most 90, in order."""
    last = date.fromisoformat(moment(window.now)[:10])
    number = min(window.days, STRIP_DAYS)
    return [(last - timedelta(days=back)).isoformat() for back in reversed(range(number))]


def card_strip(card: CardHealth, days: Sequence[str]) -> list[DayBox]:
    """A card's days as bars: as high as its share of bad tests, at least a line where it was in use."""
    by_day = {one.day: one for one in card.days}
    return [_box(place, day, by_day[day]) for place, day in enumerate(days) if day in by_day]


def _box(place: int, day: str, one: CardDay) -> DayBox:
    bad = (one.failed + one.hardware) / one.tests
    kind = "hardware" if one.hardware else "failed" if one.failed else "passed"
    told = f"{one.hardware:,} hardware and {one.failed:,} failed of {one.tests:,} tests"
    return DayBox(
        x=place,
        kind=kind,
        height=round(3 + 27 * min(1.0, bad * 4), 1),
        title=f"{day}: {told} ({percent(one.failed + one.hardware, one.tests)})",
    )


def _at(week: Week) -> float:
    return stored_epoch(f"{week.monday}T00:00:00Z")


class TestFilters(Filters):
    """Of one test's history."""

    __test__ = False  # the name is HUD's; pytest shall not take it for a test class

    id: Text = ""
    place: Place = 0
    key: Key | None = None


def _add_test_pages(router: APIRouter, database: Database, clock: Clock) -> None:
    @router.get("/tests")
    def show_tests(filters: Annotated[BadFilters, Query()]) -> HTMLResponse:
        window = filters.window(clock())
        total, tests = worst_tests(database, window, filters.verdict)
        lanes = newest_of_lanes(database, chosen_jobs(database, window))
        return page(
            "tests.html",
            here="/tests",
            form=form(database, window),
            failing=failing_now(database, lanes),
            reliability=reliability_of_flaky(database, lanes, tests),
            runs=RUNS_BACK,
            verdict=filters.verdict,
            verdicts=VERDICTS,
            total=total,
            tests=tests,
            most=MOST,
        )

    @router.get("/test")
    def show_test(filters: Annotated[TestFilters, Query()]) -> HTMLResponse:
        if not filters.id and filters.key is None:
            raise HTTPException(422, "id: give the test by its id or its key")
        key = filters.key if filters.key is not None else key_of_test(filters.id, filters.place)
        window = filters.window(clock())
        history = history_of_test(database, key, window)
        timed = [one for one in reversed(history.runs) if one.seconds and not one.superseded]
        return page(
            "test.html",
            here="/tests",
            form=form(database, window),
            key=key,
            asked=filters,
            test=history,
            name=history.test_id or filters.id or f"key {key}",
            strip=history.runs[:SHOWN][::-1],
            most=RUNS,
            spark=spark([one.seconds for one in timed]),
            slowest=max((one.seconds for one in timed), default=0.0),
            timed=len(timed),
        )
