"""Every question pages and routes ask of a store, to be asked of any."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from ci.hud.server.queries import card_health, compare, failures, history, hud
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
from tests.hud_seed_plan import SPYRE

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
    "cards of a run": failures.cards_of_run,
    "problems": failures.problems_of_run,
    "tests of a run": lambda database, job: run_tests(database, job, limit=9, file="f", order="time"),
    "files of a run": lambda database, job: files_of_run(database, job, limit=9),
    "compare": lambda database, job: compare.compare_runs(
        database, job, job, kind="fixed", limit=9, offset=0
    ),
    "history": lambda database, _: history.history_of_test(database, 7, EVERYTHING),
    "seen": lambda database, _: failures.seen(database, {"7", "8"}),
    "worst": lambda database, _: history.worst_tests(database, EVERYTHING, "flaky"),
    "by day": lambda database, _: card_health.verdicts_by_day(database, EVERYTHING, cards=True),
    "summary": lambda database, _: hud.summary(database, now=NOW, days=9),
    "dashboard": lambda database, _: hud.nightly_dashboard(database, now=NOW, repo=SPYRE, days=9),
    "nightly summary": lambda database, _: hud.nightly_summary(database, now=NOW, days=30),
    "backend summary": lambda database, _: hud.backend_summary(database, now=NOW, repo=SPYRE, days=30),
    "no backend": lambda database, _: hud.backend_summary(database, now=NOW, repo="no/such", days=30),
    "success rate": lambda database, _: hud.success_rate(database, now=NOW, days=30),
    "health": lambda database, _: hud.health_last_prs(
        database, now=NOW, window_minutes=90_000, stale_after_minutes=9
    ),
    "by pull request": lambda database, _: hud.backend_dashboard(
        database, now=NOW, repo=SPYRE, days=30, per_page=9, offset=1
    ),
    "pull request": lambda database, job: hud.pr_results(database, pr=job["pr_number"]),
    "pull requests": lambda database, job: hud.hud_results(database, numbers=[job["pr_number"], 3]),
}
