"""The pages of tests over many runs: those that are flaky or fail most often, and one test's history."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import HTMLResponse

from ci.hud.identity import key_of_test
from ci.hud.server.database import Database
from ci.hud.server.pages.charts import spark
from ci.hud.server.pages.render import page
from ci.hud.server.parameters import Clock, Filters, Key, Place, Text
from ci.hud.server.queries.history import MOST, RUNS, VERDICTS, history_of_test, worst_tests
from ci.hud.server.queries.window import form

SHOWN = 60


class TestFilters(Filters):
    """Of one test's history, or of the tests that had one verdict."""

    __test__ = False  # the name is HUD's; pytest shall not take it for a test class

    id: Text = ""
    place: Place = 0
    key: Key | None = None


class VerdictFilters(Filters):
    """Of the tests that had one verdict."""

    verdict: Annotated[Literal["flaky", "failed", "hardware", "xpassed"], Query()] = "flaky"


def add_routes(router: APIRouter, database: Database, clock: Clock) -> None:
    """Add the list and the history."""

    @router.get("/tests")
    def show_tests(filters: Annotated[VerdictFilters, Query()]) -> HTMLResponse:
        window = filters.window(clock())
        total, tests = worst_tests(database, window, filters.verdict)
        return page(
            "tests.html",
            here="/tests",
            form=form(database, window),
            verdict=filters.verdict,
            verdicts=VERDICTS,
            total=total,
            tests=tests,
            most=MOST,
        )

    @router.get("/test")
    def show_test(filters: Annotated[TestFilters, Query()]) -> HTMLResponse:
        if not filters.id and filters.key is None:
            raise HTTPException(422, "id: say which test, by its id or its key")
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
