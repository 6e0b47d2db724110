"""What fails now in the newest run of every lane, since when, and how reliable the tests are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ci.hud.server.queries.history import WorstTest
from ci.hud.server.queries.jobs import Job, chosen_jobs, jobs_of_pull_request, jobs_with_rows
from ci.hud.server.queries.rows import OF_JOB, OF_JOB_BY_KEY, grouped, listed
from ci.hud.server.queries.window import Window
from ci.record.failure_signature import last_failure, normal
from ci.record.verdict import GOOD, PROBLEMS, RAN, Verdict
from ci.store.database import Database, Row

LANES = 24
# How many runs of a lane a test's strip shows and "since" looks back over.
RUNS = 20
# Of so many tests the strip is asked for.
TESTS = 120
# Of a run in which more failed, the others are not read.
MOST = 5000
EXAMPLES = 5
_QUOTED = ", ".join(f"'{one.value}'" for one in PROBLEMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a test in one run."""

    run: int
    started_at: str
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """A test's outcomes in the newest runs of a lane, the oldest first.

    Attributes:
        outcomes: of those runs that had the test.
        since: when it began to fail without a pass since; empty where the newest outcome is no failure.
        failing: how many runs have failed since.
    """

    outcomes: Sequence[Outcome] = ()
    since: str = ""
    failing: Sequence[int] = ()

    @property
    def ran(self) -> int:
        """In how many runs it came to an outcome of its own."""
        return sum(one.verdict in RAN for one in self.outcomes)

    @property
    def passed(self) -> int:
        """In how many of those it did at once what was declared of it."""
        return sum(one.verdict in GOOD for one in self.outcomes)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingTest:
    """A test that fails in the newest run of a lane."""

    test_id: str
    place: int
    repo: str
    lane: str
    run: int
    reliability: Reliability


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The same failure of however many tests, runs and lanes.

    Attributes:
        verdict: of its tests.
        cause: of a crash: signal, hang, oom or exit.
        message: of one of them; the others say the same but for numbers, addresses and names of files.
        number: how many tests of the newest runs have it.
        tests: up to five of each lane.
        since: when the first of these began to fail.
        runs: how many runs these have failed in since.
    """

    verdict: str
    cause: str
    message: str
    number: int
    tests: Sequence[FailingTest]
    since: str
    runs: int


def signature(row: Row) -> tuple[str, str, str]:
    """What two failures have in common when they are the same one."""
    return row["verdict"], row["cause"], normal(last_failure(row["message"]), numbers=False)


def newest_of_lanes(database: Database, jobs: Iterable[Job]) -> list[list[Job]]:
    """The newest completed jobs with rows of tests of every lane, the newest first; of pull requests none.

    Args:
        database: what is asked.
        jobs: of a window, the newest first.
    """
    trunk = [job for job in jobs if job.done and not job.pr]
    by_lane = grouped(trunk, lambda job: (job.repo, job.lane, job.workflow, job.job_name))
    lanes = [own[:RUNS] for own in by_lane.values()][:LANES]
    told = jobs_with_rows(database, [job for lane in lanes for job in lane])
    return [kept for lane in lanes if (kept := [job for job in lane if job.rows_of in told])]


def failing_now(database: Database, lanes: Iterable[Sequence[Job]]) -> list[Failure]:
    """The failures of each lane's newest run, those of most tests first.

    Args:
        database: what is asked.
        lanes: see `newest_of_lanes`.
    """
    found: dict[tuple[str, str, str], list[Row]] = {}
    shown: dict[tuple[str, str, str], list[FailingTest]] = {}
    left = TESTS
    for lane in lanes:
        here = grouped(failed_rows(database, lane[0]), signature)
        examples = [(key, row) for key, rows in here.items() for row in rows[:EXAMPLES]][:left]
        left -= len(examples)
        told = reliability(database, lane, (row["test_key"] for _, row in examples))
        for key, row in examples:
            test = FailingTest(
                test_id=row["test_id"],
                place=row["place"],
                repo=lane[0].repo,
                lane=lane[0].lane,
                run=lane[0].id,
                reliability=told[row["test_key"]],
            )
            shown.setdefault(key, []).append(test)
        for key, rows in here.items():
            found.setdefault(key, []).extend(rows)
    made = [_failure(rows, shown.get(key, ())) for key, rows in found.items()]
    return sorted(made, key=lambda one: (PROBLEMS.index(Verdict(one.verdict)), -one.number, one.message))


def _failure(rows: Sequence[Row], tests: Sequence[FailingTest]) -> Failure:
    return Failure(
        verdict=rows[0]["verdict"],
        cause=rows[0]["cause"],
        message=rows[0]["message"],
        number=len({row["test_key"] for row in rows}),
        tests=tests,
        since=min((one.reliability.since for one in tests if one.reliability.since), default=""),
        runs=len({run for one in tests for run in one.reliability.failing}),
    )


def failed_rows(database: Database, job: Job) -> list[Row]:
    """The tests of a job that failed, by verdict and id; at most 5,000."""
    return database.rows(
        "SELECT test_key, test_id, place, verdict, cause, message, attempts FROM settled_test_run "  # noqa: S608
        f"WHERE {OF_JOB} AND verdict IN ({_QUOTED}) ORDER BY verdict, test_id, place LIMIT {MOST}",
        job.values,
    )


def reliability_of_flaky(
    database: Database, lanes: Iterable[Sequence[Job]], tests: Sequence[WorstTest]
) -> dict[str, Reliability]:
    """By key the outcomes of flaky tests in the newest runs of all lanes, in the order of time."""
    newest = sorted((job for lane in lanes for job in lane), key=lambda job: job.started_at, reverse=True)
    told = reliability(database, newest[:RUNS], (int(one.test_key) for one in tests))
    return {str(key): one for key, one in told.items()}


def reliability(database: Database, jobs: Sequence[Job], keys: Iterable[int]) -> dict[int, Reliability]:
    """How tests did in some jobs, by key.

    Args:
        database: what is asked.
        jobs: the newest first.
        keys: of the tests.
    """
    asked = sorted(set(keys))
    if not asked or not jobs:
        return {}
    runs = {job.rows_of: job for job in jobs}
    workflows = sorted({job.workflow_id for job in jobs})
    rows = database.tuples(
        # By a test's history; see OF_JOB_BY_KEY.
        "SELECT test_key, verdict, workflow_id, workflow_run_attempt, job_id FROM settled_test_run "  # noqa: S608
        f"WHERE test_key IN ({listed(asked)}) AND +workflow_id IN ({listed(workflows)})"
    )
    by_test: dict[int, dict[int, str]] = {key: {} for key in asked}
    for key, verdict, *job in rows:
        if (found := runs.get((job[0], job[1], job[2]))) is not None:
            by_test[int(key)][found.id] = verdict
    return {key: summarize(jobs, verdicts) for key, verdicts in by_test.items()}


def summarize(jobs: Sequence[Job], verdicts: Mapping[int, str]) -> Reliability:
    """What outcomes by the number of a job come to; pure. Jobs are the newest first."""
    outcomes = [
        Outcome(run=job.id, started_at=job.started_at, verdict=verdicts[job.id])
        for job in jobs
        if job.id in verdicts
    ]
    failing: list[Outcome] = []
    for one in outcomes:
        if one.verdict not in PROBLEMS:
            break
        failing.append(one)
    return Reliability(
        outcomes=outcomes[::-1],
        since=failing[-1].started_at if failing else "",
        failing=[one.run for one in failing],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestTest:
    """A test that failed in a pull request's job; `trunk` is the run of trunk that has it too."""

    test_id: str
    place: int
    verdict: str
    cause: str
    message: str
    job: Job
    attempts: int
    trunk: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """A pull request's jobs and failures.

    Attributes:
        number: its number.
        jobs: of its newest commit that a job was reported of, the newest start first.
        earlier: of the commits before.
        tests: what failed in `jobs`; first what trunk does not have.
        trunk: the newest runs that they are compared with.
    """

    number: int
    jobs: Sequence[Job]
    earlier: Sequence[Job]
    tests: Sequence[PullRequestTest]
    trunk: Sequence[Job]


def pull_request(database: Database, number: int, now: float) -> PullRequest:
    """A pull request, and which of its failures the newest runs of trunk have too.

    Args:
        database: what is asked.
        number: of the pull request.
        now: seconds since the epoch; trunk is of the thirty days before.
    """
    every = jobs_of_pull_request(database, number)
    jobs = [job for job in every if job.sha == every[0].sha]
    repos = {job.repo for job in jobs}
    trunk = [
        lane[0]
        for lane in newest_of_lanes(database, chosen_jobs(database, Window(now=now)))
        if lane[0].repo in repos
    ]
    tests = [test for job in jobs for test in _failed_in(database, job, trunk)]
    tests.sort(key=lambda one: (one.trunk is not None, one.test_id, one.place))
    earlier = [job for job in every if job.sha != every[0].sha]
    return PullRequest(number=number, jobs=jobs, earlier=earlier, tests=tests, trunk=trunk)


def _failed_in(database: Database, job: Job, trunk: Sequence[Job]) -> list[PullRequestTest]:
    rows = failed_rows(database, job)
    known = _on_trunk(database, [one for one in trunk if one.repo == job.repo], rows)
    told = ("test_id", "place", "verdict", "cause", "message", "attempts")
    return [
        PullRequestTest(**{name: row[name] for name in told}, job=job, trunk=known.get(row["test_key"]))
        for row in rows
    ]


def _on_trunk(database: Database, jobs: Sequence[Job], rows: Sequence[Mapping[str, int]]) -> dict[int, int]:
    """By key of a test the run of trunk in which it fails as well."""
    keys = listed(row["test_key"] for row in rows)
    found: dict[int, int] = {}
    for job in jobs if keys else ():
        told = database.tuples(
            f"SELECT test_key FROM settled_test_run WHERE {OF_JOB_BY_KEY} "  # noqa: S608  # whole numbers
            f"AND test_key IN ({keys}) AND verdict IN ({_QUOTED})",
            job.values,
        )
        for (key,) in told:
            found.setdefault(key, job.id)
    return found
