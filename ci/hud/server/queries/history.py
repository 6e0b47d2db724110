"""Tests over the runs: what became of one, how long it took, how often it is flaky, and the worst."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ci.hud.callback import stored_epoch
from ci.hud.server.queries.window import CHOSEN, LANE, Window
from ci.record.verdict import CODE_FAILED, CODE_PASSED, RAN
from ci.report.flakes import FlakyTest, Outcome, flaky_test
from ci.store.database import Database, Row

RUNS = 500
MOST = 50
VERDICTS = ("flaky", "failed", "hardware", "xpassed")


@dataclass(frozen=True, slots=True, kw_only=True)
class TestRun:
    """What became of a test in one attempt of one job."""

    __test__ = False  # the name is HUD's; pytest shall not take it for a test class

    run: int
    run_name: str
    repo: str
    lane: str
    sha: str
    attempt: int
    superseded: bool
    started_at: str
    verdict: str
    cause: str
    card: str
    seconds: float
    tries: int
    message: str
    same_job: str


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
    rows = database.rows(
        f"""
        SELECT t.test_id AS o_test_id, t.place AS o_place, t.file AS o_file, t.verdict AS o_verdict,
            t.cause AS o_cause, t.card AS o_card, t.time AS o_seconds, t.attempts AS o_tries,
            t.message AS o_message, j.id AS o_run, j.downstream_repo AS o_repo, {LANE} AS o_lane,
            j.pytorch_head_sha AS o_sha, j.run_attempt AS o_attempt, j.superseded AS o_superseded,
            j.started_at AS o_started, coalesce(d.run, '') AS o_name, j.delivery_id AS o_delivery,
            j.run_id AS o_run_id, j.workflow_name AS o_workflow, j.job_name AS o_job
        FROM settled_test_run AS t
        JOIN crcr_workflow_job_ranked AS j
            ON j.job_id = t.job_id AND j.workflow_id = t.workflow_id
            AND j.workflow_run_attempt = t.workflow_run_attempt
        LEFT JOIN job_detail AS d ON d.dynamoKey = j.dynamoKey
        WHERE t.test_key = :key AND j.started_at > :since
            AND (:repo = '' OR j.downstream_repo = :repo) AND (:event = '' OR j.event_type = :event)
            AND (:lane = '' OR {LANE} = :lane)
        ORDER BY j.started_at DESC, j.id DESC LIMIT :most
        """,  # noqa: S608  # our names
        {**window.values, "key": key, "most": RUNS},
    )
    runs = [_run(row) for row in rows]
    name, place, file = (rows[0][column] if rows else "" for column in ("o_test_id", "o_place", "o_file"))
    return summarize(name, int(place or 0), file, runs)


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


def _run(row: Row) -> TestRun:
    same = ("o_repo", "o_delivery", "o_workflow", "o_job", "o_run_id")
    return TestRun(
        run=row["o_run"],
        run_name=row["o_name"],
        repo=row["o_repo"],
        lane=row["o_lane"],
        sha=row["o_sha"],
        attempt=row["o_attempt"],
        superseded=bool(row["o_superseded"]),
        started_at=row["o_started"],
        verdict=row["o_verdict"],
        cause=row["o_cause"],
        card=row["o_card"],
        seconds=row["o_seconds"],
        tries=row["o_tries"],
        message=row["o_message"],
        same_job="\0".join(row[name] for name in same),
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
        WITH jobs AS (
            SELECT j.workflow_id AS o_workflow, j.workflow_run_attempt AS o_attempt, j.job_id AS o_job,
                j.started_at AS o_started, j.id AS o_run
            {CHOSEN}
        ), tests AS (
            SELECT t.test_key AS o_key, min(t.test_id) AS o_id, min(t.place) AS o_place,
                count(DISTINCT b.o_run) AS runs,
                count(DISTINCT t.card) AS cards, min(b.o_started) AS first_seen, max(b.o_started) AS last_seen
            FROM jobs AS b
            CROSS JOIN settled_test_run AS t
            WHERE t.workflow_id = b.o_workflow AND t.workflow_run_attempt = b.o_attempt
                AND t.job_id = b.o_job AND t.verdict = :verdict
            GROUP BY t.test_key
        )
        SELECT o_key, o_id, o_place, runs, cards, first_seen, last_seen, count(*) OVER () AS altogether
        FROM tests ORDER BY runs DESC, last_seen DESC, o_id LIMIT :most
        """,  # noqa: S608  # our names
        {**window.values, "verdict": verdict, "most": MOST},
    )
    return (rows[0]["altogether"] if rows else 0), [
        WorstTest(
            test_id=row["o_id"],
            test_key=str(row["o_key"]),
            place=row["o_place"],
            runs=row["runs"],
            cards=row["cards"],
            first_seen=row["first_seen"],
            last_seen=row["last_seen"],
        )
        for row in rows
    ]
