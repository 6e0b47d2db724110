"""One planned test while the run goes on: what its tries came to so far, in a few numbers. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ci.live.news import Tally
from ci.record.result import SILENT, Try, fold, known_outcomes, last_ordered
from ci.record.verdict import Verdict

_Row = tuple[int, int, int, float, int, int, bool, bool, Verdict]


@dataclass(slots=True)
class PlannedTest:
    """A planned test.

    Its tries are (job, number, attempt of the shard, began, shard, order of ending, ordered again, without an
    end, outcome): as the report sorts them, whichever is told of first.
    """

    tally: Tally
    expected_s: float
    verdict: Verdict | None = None
    tries: tuple[_Row, ...] = ()

    def add(self, one: Try, *, attempt: int, shard: int, order: int) -> Verdict:
        """The verdict with one try more.

        Args:
            one: the try.
            attempt: of the shard in whose journal it stands.
            shard: that one's index.
            order: which of all tries it is that ended.
        """
        began = one.started_at or 0.0
        silent = one.message == SILENT
        row = (one.job, one.number, attempt, began, shard, order, one.again, silent, one.outcome)
        self.tries = (*self.tries, row)
        if len(self.tries) == 1 and not one.again:
            return one.outcome
        jobs = itertools.groupby(sorted(self.tries), key=lambda tried: tried[0])
        return fold([outcome for _, tries in jobs for outcome in _outcomes(list(tries))])


def _outcomes(tries: Sequence[_Row]) -> list[Verdict]:
    """What the tries of one job came to."""
    last = last_ordered((number, again) for _, number, *_, again, _, _ in tries)
    return known_outcomes(
        (number, again, Verdict.FAILED if silent and number < last else outcome)
        for _, number, *_, again, silent, outcome in tries
    )
