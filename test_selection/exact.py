"""The best split of a few tests there is, by branch and bound."""

from __future__ import annotations

from collections.abc import Sequence

from test_selection.bound import ROUNDING
from test_selection.layout import Layout
from test_selection.loads import FileLoad

# Ten tests have 115,975 partitions, of which bounds leave a few hundred.
MAX_TESTS = 10


def is_small(loads: Sequence[FileLoad]) -> bool:
    """Whether the best split of these is searched for; on tests of several widths it is not."""
    return sum(len(load.ids) for load in loads) <= MAX_TESTS and all(load.cards == 1 for load in loads)


def improve(layout: Layout, bound: float) -> Layout:
    """The split of the least makespan; `layout` itself where none is better.

    Args:
        layout: a split to start from.
        bound: no split ends sooner, so one that ends then is taken without a further look.
    """
    search = _Search(layout, bound)
    search.run()
    return search.best


class _Search:
    def __init__(self, layout: Layout, bound: float) -> None:
        self.best = layout
        self.peak = layout.makespan
        self._bound = bound * (1 + ROUNDING)
        # Whoever brings most is placed first; equal tests stand side by side.
        self._order = sorted(
            (-(load.setup_s + seconds), number, test)
            for number, load in enumerate(layout.loads)
            for test, seconds in enumerate(load.seconds)
        )
        self._rest = [0.0] * (len(self._order) + 1)
        for at in reversed(range(len(self._order))):
            _, number, test = self._order[at]
            self._rest[at] = self._rest[at + 1] + layout.loads[number].seconds[test]
        self._now = Layout(layout.loads, layout.widths, layout.speeds, layout.max_files)
        # No more shards than tests are of use, and those the fastest.
        fastest = sorted(range(len(layout.speeds)), key=lambda one: (-layout.speeds[one], one))
        self._shards = sorted(fastest[: len(self._order)])
        self._total_speed = sum(layout.speeds[shard] for shard in self._shards)

    def run(self, at: int = 0, low: float = 0.0, last: int = -1) -> None:
        """Place the tests from `at` on; `low` is the makespan so far, `last` where the one before went."""
        # The peak may have fallen since the caller weighed its choices.
        if self.peak <= self._bound or low >= self.peak * (1 - ROUNDING) > 0:
            return
        if at == len(self._order):
            self.peak, self.best = low, self._copy()
            return
        now = self._now
        # All that is placed and all that is to come, shared out evenly.
        placed = sum(now.work[shard] for shard in self._shards)
        if (placed + self._rest[at]) / self._total_speed >= self.peak * (1 - ROUNDING):
            return
        _, number, test = self._order[at]
        twin = at > 0 and self._order[at - 1][:2] == self._order[at][:2]
        empty: set[float] = set()
        choices = []
        for shard in self._shards:
            content = now.content[shard]
            if (twin and shard < last) or not now.takes(shard, number):
                continue
            if not content:
                if now.speeds[shard] in empty:
                    continue
                empty.add(now.speeds[shard])
            load = now.loads[number]
            setup = 0.0 if number in content else load.setup_s
            time = (now.work[shard] + load.seconds[test] + setup) / now.speeds[shard]
            if max(time, low) < self.peak * (1 - ROUNDING):
                choices.append((time, shard))
        for time, shard in sorted(choices):
            now.add(shard, number, (test,))
            self.run(at + 1, max(time, low), shard)
            now.remove(shard, number, (test,))

    def _copy(self) -> Layout:
        now = self._now
        made = Layout(now.loads, now.widths, now.speeds, now.max_files)
        for shard, content in enumerate(now.content):
            for number, tests in content.items():
                made.add(shard, number, tests)
        return made
