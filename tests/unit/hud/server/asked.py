"""Every question pages and routes ask of a store, to be asked of any."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from ci.hud.server.queries import card_health, compare, failing, history, one_run, timing
from ci.hud.server.queries.jobs import (
    attempts,
    chosen_jobs,
    count_jobs,
    job_before,
    list_jobs,
    newest_with_rows,
)
from ci.hud.server.queries.tests_of_run import files_of_run, run_tests
from ci.hud.server.queries.window import Window, form
from ci.store.database import Database

END = datetime(2026, 8, 30, 12, tzinfo=UTC)
NOW = END.timestamp()
Ask = Callable[[Database, Mapping[str, Any]], Any]
EVERYTHING = Window(now=NOW, days=90)
ASKED: dict[str, Ask] = {
    "jobs": lambda database, _: chosen_jobs(database, EVERYTHING),
    "form": lambda database, _: form(database, EVERYTHING),
    "list": lambda database, _: (list_jobs(database, limit=100), count_jobs(database)),
    "attempts": lambda database, job: (attempts(database, job), job_before(database, job)),
    "newest": lambda database, _: newest_with_rows(database, EVERYTHING),
    "cards of a run": one_run.cards_of_run,
    "problems": one_run.problems_of_run,
    "tests of a run": lambda database, job: run_tests(database, job, limit=9, file="f", order="time"),
    "files of a run": lambda database, job: files_of_run(database, job, limit=9),
    "compare": lambda database, job: compare.compare_runs(
        database, job, job, kind="fixed", limit=9, offset=0
    ),
    "history": lambda database, _: history.history_of_test(database, 7, EVERYTHING),
    "seen": lambda database, _: one_run.seen(database, {7, 8}),
    "worst": lambda database, _: history.worst_tests(database, EVERYTHING, "flaky"),
    "by day": lambda database, _: card_health.verdicts_by_day(database, EVERYTHING, cards=True),
    "failing": lambda database, _: failing.failing_now(
        database, failing.newest_of_lanes(database, chosen_jobs(database, EVERYTHING))
    ),
    "pull request": lambda database, job: failing.pull_request(database, job["pr_number"], NOW),
    "slower tests": lambda database, _: timing.slower_tests(
        database, {"7": 1.0}, chosen_jobs(database, EVERYTHING)
    ),
    "slower files": lambda database, _: timing.slower_files(
        database, {"f": 1.0}, chosen_jobs(database, EVERYTHING)
    ),
}
