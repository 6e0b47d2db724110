"""One planned test while the run goes on: what its tries came to so far, in a few numbers. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ci.live.news import Tally
from ci.report.verdict import SILENT, Try, Verdict, fold_known, last_ordered

_Row = tuple[int, int, float, int, int, bool, bool, Verdict]


@dataclass(slots=True)
class PlannedTest:
    """A planned test.

    Its tries are (number, attempt of the shard, began, shard, order of ending, ordered again, without an end,
    outcome): as the report sorts them, whichever is told of first.
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
        row = (one.number, attempt, began, shard, order, one.again, one.message == SILENT, one.outcome)
        self.tries = (*self.tries, row)
        if len(self.tries) == 1 and not one.again:
            return one.outcome
        last = last_ordered((tried[0], tried[5]) for tried in self.tries)
        return fold_known(
            (number, again, Verdict.FAILED if silent and number < last else outcome)
            for number, *_, again, silent, outcome in sorted(self.tries)
        )
