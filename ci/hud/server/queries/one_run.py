"""Of one run: its verdicts by card, its problems grouped by cause, and since when each test has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ci.core.text import one_line
from ci.hud.server.queries.rows import OF_JOB, grouped, job_values, listed
from ci.record import verdict
from ci.store.database import Database, Row, Value
from ci.store.schema import PROBLEM

# What somebody must look at, in the order of a page; flaky and unexpected passes are told after them.
PROBLEMS = (*verdict.PROBLEMS, verdict.Verdict.FLAKY, verdict.Verdict.XPASSED)
# Verdict, cause and message.
_Group = tuple[str, str, str]
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


def cards_of_run(database: Database, job: Mapping[str, Value]) -> list[CardVerdicts]:
    """The verdicts of a run by card, in the order of names; empty where no rows of tests came."""
    rows = database.rows(
        f"SELECT card, verdict, tests, seconds FROM job_card WHERE {OF_JOB} ORDER BY card, verdict",  # noqa: S608
        job_values(job),
    )
    return [
        CardVerdicts(
            card=card,
            verdicts={part["verdict"]: part["tests"] for part in parts},
            seconds=sum(part["seconds"] for part in parts),
        )
        for card, parts in grouped(rows, lambda row: str(row["card"])).items()
    ]


def problems_of_run(database: Database, job: Mapping[str, Value]) -> list[Problem]:
    """What went wrong in a run, failures first, bigger groups before smaller ones; at most 200 groups.

    Of each group the first five tests are examples; of the first forty of them since when is asked.
    """
    groups = database.rows(
        f"""
        SELECT verdict, cause, message, card, count(*) AS number FROM settled_test_run
        WHERE {OF_JOB} AND {PROBLEM}
        GROUP BY verdict, cause, message, card ORDER BY number DESC, verdict, cause, message, card LIMIT :most
        """,  # noqa: S608  # our names
        {**job_values(job), "most": 4 * GROUPS},
    )
    merged: dict[_Group, Counter[str]] = {}
    for row in groups:
        merged.setdefault(_group(row), Counter())[row["card"]] += row["number"]
    order = sorted(merged, key=lambda one: (PROBLEMS.index(one[0]), -merged[one].total(), one[1], one[2]))[
        :GROUPS
    ]
    examples = _examples(database, job)
    shown = {group: examples.get(group, ())[:EXAMPLES] for group in order}
    times = seen(database, [row["test_key"] for rows in shown.values() for row in rows][:SEEN])
    return [
        Problem(
            verdict=group[0],
            cause=group[1],
            message=group[2],
            tests=merged[group].total(),
            cards=dict(sorted(merged[group].items())),
            examples=[_example(row, times.get((row["test_key"], group[0]), {})) for row in rows],
        )
        for group, rows in shown.items()
    ]


def _group(row: Row) -> _Group:
    return row["verdict"], row["cause"], one_line(row["message"])


def _examples(database: Database, job: Mapping[str, Value]) -> dict[_Group, list[Row]]:
    rows = database.rows(
        f"""
        WITH numbered AS (
            SELECT verdict, cause, message, test_id, test_key, place, card, time, attempts,
                row_number() OVER (PARTITION BY verdict, cause, message ORDER BY test_id, place) AS standing
            FROM settled_test_run WHERE {OF_JOB} AND {PROBLEM}
        )
        SELECT * FROM numbered WHERE standing <= :examples ORDER BY test_id, place LIMIT :most
        """,  # noqa: S608  # our names
        {**job_values(job), "examples": EXAMPLES, "most": EXAMPLES * GROUPS},
    )
    return grouped(rows, _group)


def _example(row: Row, times: Row) -> Example:
    names = ("test_id", "place", "card", "attempts")
    told = {name: row[name] for name in names} | times
    return Example(test_key=str(row["test_key"]), seconds=row["time"], **told)


def seen(database: Database, keys: Iterable[int]) -> dict[tuple[int, str], Row]:
    """By (test key, verdict) of problems: in how many runs, first and last when; superseded ones left out."""
    asked = listed(keys)
    if not asked:
        return {}
    rows = database.rows(
        f"""
        SELECT t.test_key AS o_key, t.verdict AS o_verdict, count(DISTINCT j.id) AS times,
            min(j.started_at) AS first_seen, max(j.started_at) AS last_seen
        FROM settled_test_run AS t
        JOIN crcr_workflow_job_ranked AS j
            ON j.job_id = t.job_id AND j.workflow_id = t.workflow_id
            AND j.workflow_run_attempt = t.workflow_run_attempt
        WHERE t.test_key IN ({asked}) AND t.{PROBLEM} AND NOT j.superseded
        GROUP BY t.test_key, t.verdict
        """  # noqa: S608  # whole numbers
    )
    return {(row.pop("o_key"), row.pop("o_verdict")): row for row in rows}
