"""Tests over the runs: what became of one, how long it took, how often it is flaky, and the worst."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from ci.hud.callback import stored_epoch
from ci.hud.server.queries.rows import records
from ci.hud.server.queries.window import LANE, WINDOW_JOBS, Window
from ci.record.verdict import CODE_FAILED, CODE_PASSED, RAN
from ci.report.flakes import FlakyTest, Outcome, flaky_test
from ci.store.database import Database

RUNS = 500
MOST = 50
# What the attempts of one job have in common.
_SAME_JOB = " || char(0) || ".join(
    f"j.{name}" for name in ("downstream_repo", "delivery_id", "workflow_name", "job_name", "run_id")
)
VERDICTS = ("flaky", "failed", "hardware", "xpassed")


@dataclass(frozen=True, slots=True, kw_only=True)
class TestRun:
    """What became of a test in one attempt of one job."""

    __test__ = False  # the name is HUD's; pytest shall not take it for a test class

    run: Annotated[int, "j.id"]
    run_name: Annotated[str, "coalesce(d.run, '')"]
    repo: Annotated[str, "j.downstream_repo"]
    lane: Annotated[str, LANE]
    sha: Annotated[str, "j.pytorch_head_sha"]
    attempt: Annotated[int, "j.run_attempt"]
    superseded: Annotated[bool, "j.superseded"]
    started_at: Annotated[str, "j.started_at"]
    verdict: Annotated[str, "t.verdict"]
    cause: Annotated[str, "t.cause"]
    card: Annotated[str, "t.card"]
    seconds: Annotated[float, "t.time"]
    tries: Annotated[int, "t.attempts"]
    message: Annotated[str, "t.message"]
    same_job: Annotated[str, _SAME_JOB]


@dataclass(frozen=True, slots=True, kw_only=True)
class TestHistory:
    """A test's newest runs, the newest first, and what they say of it.

    Attributes:
        test_id: its id; empty where no run has it.
        runs: at most 500 attempts, superseded ones too, which no number counts.
        counted: how many of them no later attempt superseded.
        outcomes: how many of those came to an outcome: passed, failed, flaky, xfailed or xpassed.
        flaky: in how many of those it was flaky: the run said so, or it passed where an attempt that was
            superseded had failed.
        failed: in how many of those it failed.
        flake_rate: flaky of outcomes, 0 to 1; None where there is no outcome.
        cards: of the flaky ones, how many on each card.
        blame: `card`, `test` or `unclear`; empty where it is not flaky.
    """

    __test__ = False  # the name is HUD's; pytest shall not take it for a test class

    test_id: str
    place: int
    file: str
    runs: Sequence[TestRun]
    counted: int
    outcomes: int
    flaky: int
    failed: int
    flake_rate: float | None
    cards: dict[str, int]
    blame: str


def history_of_test(database: Database, key: int, window: Window) -> TestHistory:
    """The history of a test by its key, of the window's repository, lane, event and days."""
    runs = records(
        database,
        TestRun,
        f"""
        FROM settled_test_run AS t
        JOIN crcr_workflow_job_ranked AS j
            ON j.job_id = t.job_id AND j.workflow_id = t.workflow_id
            AND j.workflow_run_attempt = t.workflow_run_attempt
        LEFT JOIN job_detail AS d ON d.dynamoKey = j.dynamoKey
        WHERE t.test_key = :key AND j.started_at > :since
            AND (:repo = '' OR j.downstream_repo = :repo) AND (:event = '' OR j.event_type = :event)
            AND (:lane = '' OR {LANE} = :lane)
        ORDER BY j.started_at DESC, j.id DESC LIMIT :most
        """,
        {**window.values, "key": key, "most": RUNS},
    )
    names = "min(test_id), min(place), min(file)"
    (found,) = database.tuples(f"SELECT {names} FROM settled_test_run WHERE test_key = :key", {"key": key})  # noqa: S608
    name, place, file = found if runs else ("", 0, "")
    return summarize(name, place, file, runs)


def summarize(test_id: str, place: int, file: str, runs: Sequence[TestRun]) -> TestHistory:
    """What runs say of a test; pure."""
    failed_before = {one.same_job for one in runs if one.superseded and one.verdict in CODE_FAILED}
    counted = [one for one in runs if not one.superseded]
    outcomes = [_outcome(one, failed_before) for one in counted if one.verdict in RAN]
    flaky: FlakyTest | None = flaky_test(test_id, outcomes) if outcomes else None
    return TestHistory(
        test_id=test_id,
        place=place,
        file=file,
        runs=runs,
        counted=len(counted),
        outcomes=len(outcomes),
        flaky=flaky.bad if flaky else 0,
        failed=sum(one.verdict == "failed" for one in counted),
        flake_rate=(flaky.rate if flaky else 0.0) if outcomes else None,
        cards=dict(flaky.cards) if flaky else {},
        blame=flaky.blame if flaky else "",
    )


def _outcome(run: TestRun, failed_before: set[str]) -> Outcome:
    flaky = run.verdict == "flaky" or (run.verdict in CODE_PASSED and run.same_job in failed_before)
    # What the checkout was is not known, so a run is compared with its own attempts alone.
    return Outcome(
        verdict="flaky" if flaky else run.verdict,
        card=run.card or None,
        commit=str(run.run),
        at=stored_epoch(run.started_at),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstTest:
    """A test and in how many runs of the window it had the verdict asked for, on how many cards, and when."""

    test_id: str
    test_key: str
    place: int
    runs: int
    cards: int
    first_seen: str
    last_seen: str


def worst_tests(database: Database, window: Window, verdict: str) -> tuple[int, list[WorstTest]]:
    """How many tests had a verdict in the window, and those that had it most often; at most 50.

    Attempts that a later one superseded are left out.
    """
    # SQLite takes a CROSS JOIN in the order it is written: the jobs, then the rows of each by the index on
    # (job, verdict). Else it reads every row; to ClickHouse it is a join like any other.
    rows = database.rows(
        f"""
        WITH tests AS (
            SELECT t.test_key AS o_key, min(t.test_id) AS o_name, min(t.place) AS o_place,
                count(DISTINCT b.o_id) AS runs, count(DISTINCT t.card) AS cards,
                min(b.o_started) AS first_seen, max(b.o_started) AS last_seen
            FROM {WINDOW_JOBS} AS b
            CROSS JOIN settled_test_run AS t
            WHERE t.workflow_id = b.o_workflow AND t.workflow_run_attempt = b.o_attempt
                AND t.job_id = b.o_job AND t.verdict = :verdict
            GROUP BY t.test_key
        )
        SELECT CAST(o_key AS TEXT) AS test_key, o_name AS test_id, o_place AS place, runs, cards, first_seen,
            last_seen, count(*) OVER () AS altogether
        FROM tests ORDER BY runs DESC, last_seen DESC, o_name LIMIT :most
        """,  # noqa: S608  # our names
        {**window.values, "verdict": verdict, "most": MOST},
    )
    totals = [row.pop("altogether") for row in rows]
    return max(totals, default=0), [WorstTest(**row) for row in rows]
