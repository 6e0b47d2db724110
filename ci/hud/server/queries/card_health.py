"""Verdicts by day and card, and how well each card is: whether it fails, and still is in use.

They are summed from what each job brought; no row of a test is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from ci.hud.server.queries.rows import records
from ci.hud.server.queries.window import WINDOW_JOBS, Window
from ci.store.database import Database

OUT_OF_USE_DAYS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CardDay:
    """A card's tests of one day (UTC)."""

    day: str
    tests: int
    failed: int
    hardware: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CardHealth:
    """A card, known by its name alone: hosts that name theirs alike share one.

    Attributes:
        card: its name.
        tests: tests that a run tied to it.
        failed: of those, that failed.
        hardware: of those, whose verdict is the card's fault.
        days: the days it was in use, in order.
        last_used: the newest of them.
        last_hardware: the newest with a hardware verdict; empty where there is none.
        idle_days: days since, on which other cards ran tests; from two on it may be benched.
    """

    card: str
    tests: int
    failed: int
    hardware: int
    days: Sequence[CardDay]
    last_used: str
    last_hardware: str
    idle_days: int

    @property
    def maybe_benched(self) -> bool:
        """Whether it was left out where others ran."""
        return self.idle_days >= OUT_OF_USE_DAYS


def card_health(verdicts: Iterable[DayVerdict]) -> list[CardHealth]:
    """The cards, those with the largest share of hardware verdicts first, then of failures.

    Args:
        verdicts: by day and card, superseded attempts left out.
    """
    by_card: dict[str, dict[str, Counter[str]]] = {}
    for one in verdicts:
        by_card.setdefault(one.card, {}).setdefault(one.day, Counter())[one.verdict] += one.tests
    everyday = {day for days in by_card.values() for day in days}
    made = [_card(card, days, everyday) for card, days in by_card.items()]
    return sorted(made, key=lambda one: (-one.hardware / one.tests, -one.failed / one.tests, one.card))


def _card(card: str, days: Mapping[str, Counter[str]], everyday: Collection[str]) -> CardHealth:
    made = [
        CardDay(day=day, tests=counts.total(), failed=counts["failed"], hardware=counts["hardware"])
        for day, counts in sorted(days.items())
    ]
    return CardHealth(
        card=card,
        tests=sum(one.tests for one in made),
        failed=sum(one.failed for one in made),
        hardware=sum(one.hardware for one in made),
        days=made,
        last_used=made[-1].day,
        last_hardware=max((one.day for one in made if one.hardware), default=""),
        idle_days=sum(day > made[-1].day for day in everyday),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DayVerdict:
    """So many tests of a day (UTC) had a verdict, on one card or (empty) on none or any."""

    day: Annotated[str, "b.o_day"]
    card: Annotated[str, "c.card"]
    verdict: Annotated[str, "c.verdict"]
    tests: Annotated[int, "sum(c.tests)"]
    seconds: Annotated[float, "sum(c.seconds)"]
    jobs: Annotated[int, "count(*)"]


def verdicts_by_day(database: Database, window: Window, *, cards: bool = False) -> list[DayVerdict]:
    """The verdicts of the window's jobs, superseded attempts left out, in the order of days.

    Args:
        database: what is asked.
        window: which jobs.
        cards: by card as well; tests that saw no card are left out then.
    """
    return records(
        database,
        DayVerdict,
        f"""
        FROM {WINDOW_JOBS} AS b
        JOIN job_card AS c ON c.workflow_id = b.o_workflow AND c.workflow_run_attempt = b.o_attempt
            AND c.job_id = b.o_job
        {"WHERE c.card != ''" if cards else ""}
        GROUP BY b.o_day, {"c.card, " if cards else ""}c.verdict ORDER BY o_day, o_card, o_verdict
        """,
        window.values,
        **({} if cards else {"card": "''"}),
    )
