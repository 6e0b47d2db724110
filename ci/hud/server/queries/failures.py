"""Of one run: its verdicts by card, its problems grouped by cause, and since when each test has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ci.core.text import one_line
from ci.hud.server.queries.window import names_of
from ci.record import verdict
from ci.store.database import Database, Row, Value
from ci.store.schema import PROBLEM

# What somebody must look at, in the order of a page; flaky and unexpected passes are told after them.
PROBLEMS = (*verdict.PROBLEMS, verdict.Verdict.FLAKY, verdict.Verdict.XPASSED)
_OF_JOB = "workflow_id = :workflow AND workflow_run_attempt = :attempt AND job_id = :job"
GROUPS = 200
EXAMPLES = 5
# Of so many tests the first and last time is asked: each asks for a whole history.
SEEN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class CardVerdicts:
    """What became of the tests on one card of a run; the name is empty where a test saw no card."""

    card: str
    verdicts: Mapping[str, int]
    seconds: float

    @property
    def tests(self) -> int:
        """How many there were."""
        return sum(self.verdicts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A test with a problem.

    Attributes:
        first_seen: when a run first had this verdict of it, in the whole store; empty where not asked.
        last_seen: the last such start; empty where not asked.
        times: how many runs had it; 0 where not asked.
    """

    test_id: str
    test_key: str
    place: int
    card: str
    seconds: float
    attempts: int
    first_seen: str = ""
    last_seen: str = ""
    times: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Tests with the same verdict, cause and message; `cards` says how many were on each."""

    verdict: str
    cause: str
    message: str
    tests: int
    cards: Mapping[str, int]
    examples: Sequence[Example]


def job_values(job: Mapping[str, Value]) -> dict[str, Value]:
    """What finds the rows of tests of a job.

    Args:
        job: a row of `crcr_workflow_job_ranked`.
    """
    return {
        "workflow": job["workflow_id"],
        "attempt": job["workflow_run_attempt"],
        "job": job["job_id"],
    }


def cards_of_run(database: Database, job: Mapping[str, Value]) -> list[CardVerdicts]:
    """The verdicts of a run by card, in the order of names; empty where no rows of tests came."""
    rows = database.rows(
        f"SELECT card, verdict, tests, seconds FROM job_card WHERE {_OF_JOB} ORDER BY card, verdict",  # noqa: S608
        job_values(job),
    )
    by_card: dict[str, list[Row]] = {}
    for row in rows:
        by_card.setdefault(row["card"], []).append(row)
    return [
        CardVerdicts(
            card=card,
            verdicts={part["verdict"]: part["tests"] for part in parts},
            seconds=sum(part["seconds"] for part in parts),
        )
        for card, parts in by_card.items()
    ]


def problems_of_run(database: Database, job: Mapping[str, Value]) -> list[Problem]:
    """What went wrong in a run, failures first, bigger groups before smaller ones; at most 200 groups.

    Of each group the first five tests are examples; of the first forty of them since when is asked.
    """
    groups = database.rows(
        f"""
        SELECT verdict, cause, message, card, count(*) AS number FROM settled_test_run
        WHERE {_OF_JOB} AND {PROBLEM}
        GROUP BY verdict, cause, message, card ORDER BY number DESC, verdict, cause, message, card LIMIT :most
        """,  # noqa: S608  # our names
        {**job_values(job), "most": 4 * GROUPS},
    )
    merged: dict[tuple[str, str, str], dict[str, int]] = {}
    for row in groups:
        cards = merged.setdefault(_group(row), {})
        cards[row["card"]] = cards.get(row["card"], 0) + row["number"]
    examples = _examples(database, job)
    made = [
        Problem(
            verdict=verdict,
            cause=cause,
            message=message,
            tests=sum(cards.values()),
            cards=dict(sorted(cards.items())),
            examples=examples.get((verdict, cause, message), ())[:EXAMPLES],
        )
        for (verdict, cause, message), cards in merged.items()
    ]
    made.sort(key=lambda one: (PROBLEMS.index(one.verdict), -one.tests, one.cause, one.message))
    return _with_times(database, made[:GROUPS])


def _group(row: Row) -> tuple[str, str, str]:
    return row["verdict"], row["cause"], one_line(row["message"])


def _examples(database: Database, job: Mapping[str, Value]) -> dict[tuple[str, str, str], list[Example]]:
    rows = database.rows(
        f"""
        WITH numbered AS (
            SELECT verdict, cause, message, test_id, test_key, place, card, time, attempts,
                row_number() OVER (PARTITION BY verdict, cause, message ORDER BY test_id, place) AS standing
            FROM settled_test_run WHERE {_OF_JOB} AND {PROBLEM}
        )
        SELECT * FROM numbered WHERE standing <= :examples ORDER BY test_id, place LIMIT :most
        """,  # noqa: S608  # our names
        {**job_values(job), "examples": EXAMPLES, "most": EXAMPLES * GROUPS},
    )
    found: dict[tuple[str, str, str], list[Example]] = {}
    for row in rows:
        found.setdefault(_group(row), []).append(
            Example(
                test_id=row["test_id"],
                test_key=str(row["test_key"]),
                place=row["place"],
                card=row["card"],
                seconds=row["time"],
                attempts=row["attempts"],
            )
        )
    return found


def _with_times(database: Database, problems: Sequence[Problem]) -> list[Problem]:
    asked = [(one.verdict, example.test_key) for one in problems for example in one.examples][:SEEN]
    times = seen(database, {key for _, key in asked})
    return [
        Problem(
            verdict=one.verdict,
            cause=one.cause,
            message=one.message,
            tests=one.tests,
            cards=one.cards,
            examples=[
                _timed(example, times.get((example.test_key, one.verdict))) for example in one.examples
            ],
        )
        for one in problems
    ]


def _timed(example: Example, row: Row | None) -> Example:
    if row is None:
        return example
    return Example(
        test_id=example.test_id,
        test_key=example.test_key,
        place=example.place,
        card=example.card,
        seconds=example.seconds,
        attempts=example.attempts,
        first_seen=row["first_seen"],
        last_seen=row["last_seen"],
        times=row["number"],
    )


def seen(database: Database, keys: Iterable[str]) -> dict[tuple[str, str], Row]:
    """By (test key, verdict) of problems: in how many runs, first and last when; superseded ones left out."""
    asked = sorted(keys)
    values: dict[str, Value] = dict(zip(names_of("key", len(asked)), map(int, asked), strict=True))
    if not values:
        return {}
    rows = database.rows(
        f"""
        SELECT t.test_key AS o_key, t.verdict AS o_verdict, count(DISTINCT j.id) AS number,
            min(j.started_at) AS first_seen, max(j.started_at) AS last_seen
        FROM settled_test_run AS t
        JOIN crcr_workflow_job_ranked AS j
            ON j.job_id = t.job_id AND j.workflow_id = t.workflow_id
            AND j.workflow_run_attempt = t.workflow_run_attempt
        WHERE t.test_key IN ({", ".join(f":{name}" for name in values)})
            AND t.{PROBLEM} AND NOT j.superseded
        GROUP BY t.test_key, t.verdict
        """,  # noqa: S608  # our names
        values,
    )
    return {(str(row["o_key"]), row["o_verdict"]): row for row in rows}
