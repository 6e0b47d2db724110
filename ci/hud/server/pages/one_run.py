"""The pages of one run and of one pull request: what failed and why, how to run it again, and all tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import HTMLResponse

from ci.core.text import clip
from ci.hud.callback import UPSTREAM_REPOSITORY, RunDetails
from ci.hud.server.pages import jobs
from ci.hud.server.pages.charts import verdict_bar
from ci.hud.server.pages.render import VERDICTS, page
from ci.hud.server.parameters import ChosenTests, Clock, JobNumber, PrNumber, found_job
from ci.hud.server.queries.failing import PullRequestTest, pull_request
from ci.hud.server.queries.jobs import attempts, job_before
from ci.hud.server.queries.one_run import SEEN, cards_of_run, problems_of_run
from ci.hud.server.queries.tests_of_run import files_of_run, run_tests
from ci.record.reproduce_line import attempt_of, ref_of, reproduce_line
from ci.store.database import Database
from test_selection.seeds import MOST

FILES, SLOWEST, ROWS = 20, 15, 100
# Failures of a pull request.
SHOWN = 200
_SHA = re.compile(r"[0-9a-f]{40}")
_NAME = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_DEVICE = re.compile(r"[a-z][a-z0-9_]{0,30}")
LONGEST = 4000


def add_routes(router: APIRouter, database: Database, clock: Clock) -> None:
    """Add a run's page, the page of its tests, and a pull request's."""
    _add_pull_request(router, database, clock)

    @router.get("/runs/{number}")
    def show_run(number: JobNumber) -> HTMLResponse:
        job = found_job(database, number)
        cards = cards_of_run(database, job)
        view, details = jobs.view(job), jobs.details_of(job["environment"])
        totals = {name: sum(one.verdicts.get(name, 0) for one in cards) for name in VERDICTS}
        return page(
            "run.html",
            here="/runs",
            job=view,
            attempts=[jobs.view(one) for one in attempts(database, job)],
            before=job_before(database, job),
            cards=cards,
            totals=totals,
            overall=verdict_bar(totals),
            bars=[verdict_bar(one.verdicts) for one in cards],
            problems=problems_of_run(database, job) if cards else [],
            seen=SEEN,
            files=files_of_run(database, job, limit=FILES) if cards else [],
            slowest=run_tests(database, job, limit=SLOWEST, order="time")[1] if cards else [],
            command=lambda test_id, verdict, attempts: command_of(
                job, details, test_id, attempt=attempt_of(verdict, attempts)
            ),
        )

    @router.get("/runs/{number}/tests")
    def show_tests(number: JobNumber, chosen: Annotated[ChosenTests, Query()]) -> HTMLResponse:
        job = found_job(database, number)
        total, tests = run_tests(database, job, limit=ROWS, **chosen.model_dump())
        cards = cards_of_run(database, job)
        return page(
            "run_tests.html",
            here="/runs",
            job=jobs.view(job),
            cards=[one.card for one in cards if one.card],
            tests=tests,
            total=total,
            chosen=chosen.model_dump(exclude={"offset"}),
            offset=chosen.offset,
            step=ROWS,
        )


def _add_pull_request(router: APIRouter, database: Database, clock: Clock) -> None:
    @router.get("/pr/{number}")
    def show_pull_request(number: PrNumber) -> HTMLResponse:
        found = pull_request(database, number, clock())
        if not found.jobs:
            raise HTTPException(404, "no job of this pull request was reported")
        rows = {job.id: found_job(database, job.id) for job in found.jobs}

        def command(test: PullRequestTest) -> str:
            row = rows[test.job.id]
            attempt = attempt_of(test.verdict, test.attempts)
            return command_of(row, jobs.details_of(row["environment"]), test.test_id, attempt=attempt)

        return page(
            "pull_request.html",
            here="/grid",
            found=found,
            views=[jobs.view(row) for row in rows.values()],
            shown=SHOWN,
            command=command,
        )


def command_of(job: Mapping[str, Any], details: RunDetails, test_id: str, *, attempt: int) -> str:
    """The command line, quoted for a shell; empty where the job does not say the device it ran on.

    Args:
        job: a row of the store.
        details: what the job says of itself.
        test_id: the test id.
        attempt: which try of the test is meant, from 1.
    """
    if not _DEVICE.fullmatch(details.device):
        return ""
    sha, source = job["pytorch_head_sha"], None
    if _SHA.fullmatch(sha):
        upstream = job["upstream_repo"] if _NAME.fullmatch(job["upstream_repo"]) else UPSTREAM_REPOSITORY
        source = f"git+https://github.com/{upstream}@{sha}"
    number = str(job["run_id"])
    command = reproduce_line(
        test_id,
        device=details.device,
        source=source,
        seed=details.seed if details.seed is None or details.seed <= MOST else None,
        ref=ref_of(
            run=details.run,
            provider=details.provider,
            run_id=int(number) if number.isdecimal() else 0,
            run_attempt=job["run_attempt"],
        ),
        attempt=attempt,
    )
    return clip(command, LONGEST)
