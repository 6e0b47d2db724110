"""A plan run on paper: cards claim pieces, event by event, on one drawn day.

Static, nobody helps; with the tail stolen, cards of one domain (a host of so many cards, or all of them)
claim each other's pieces by the policy of `test_selection.steal`. The policy sees what a card could see:
what was expected, what is unclaimed, and what ended pieces took; never the truth of what is to come.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from test_selection.day_bound import true_bound
from test_selection.floor import STATIC, Floor, Segment
from test_selection.plan import Plan
from test_selection.steal import Piece, cut_plan, piece_seconds
from test_selection.world import Truth


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a plan on one day.

    Attributes:
        cards: how many there were.
        makespan_s: when the last card ended.
        bound_s: no split could have ended sooner that day.
        busy: share of the cards' time until then that was spent on tests and set-up.
        not_run: ids no living card was left for.
        stolen: pieces run by a card whose shard they were not of.
        segments: every piece that ran, in the order of beginning.
    """

    cards: int
    makespan_s: float
    bound_s: float
    busy: float
    not_run: tuple[str, ...]
    stolen: int
    segments: tuple[Segment, ...]

    @property
    def ratio(self) -> float:
        """Makespan over the bound; 1 where there was nothing to do."""
        return self.makespan_s / self.bound_s if self.bound_s else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """A way to run a plan: cards of one domain steal from each other, `domain` of them; None for all."""

    name: str
    domain: int | None


def modes(hosts_of: int) -> tuple[Mode, ...]:
    """Static, and with work stealing among the cards of a host of so many, and among all."""
    return (
        Mode(name="static", domain=STATIC),
        Mode(name="per host", domain=hosts_of),
        Mode(name="global", domain=None),
    )


def simulate(
    plan: Plan,
    truth: Truth,
    *,
    test_s: Mapping[str, float],
    file_s: Mapping[str, float],
    ways: Sequence[Mode],
) -> list[Outcome]:
    """Run a plan on paper on one day, in each of `ways`.

    Args:
        plan: a card a shard.
        truth: of the day.
        test_s: seconds the plan expected of each test.
        file_s: set-up seconds it expected of each file.
        ways: each is run on the same day.
    """
    pieces = cut_plan(plan, test_s)
    bound = true_bound(plan, truth)
    tick = piece_seconds(plan)
    return [
        run_pieces(pieces, truth, file_s=file_s, domain=one.domain, tick_s=tick, bound_s=bound)
        for one in ways
    ]


def run_pieces(
    pieces: Sequence[Sequence[Piece]],
    truth: Truth,
    *,
    file_s: Mapping[str, float],
    domain: int | None,
    tick_s: float,
    bound_s: float,
) -> Outcome:
    """Run cut shards on one day; see `simulate`."""
    floor = Floor(pieces, truth, file_s=file_s, domain=domain or len(pieces), tick_s=tick_s)
    floor.run()
    # Nobody waits for a set-up that nothing is left to run after.
    ends = max((segment.ends_at for segment in floor.segments if segment.piece.ids), default=0.0)
    done = math.fsum(min(one.ends_at, ends) - min(one.starts_at, ends) for one in floor.segments)
    return Outcome(
        cards=len(pieces),
        makespan_s=ends,
        bound_s=bound_s,
        busy=done / (ends * len(pieces)) if ends else 0.0,
        not_run=tuple(floor.sight.left_over()),
        stolen=sum(segment.card != segment.shard and bool(segment.piece.ids) for segment in floor.segments),
        segments=tuple(floor.segments),
    )
