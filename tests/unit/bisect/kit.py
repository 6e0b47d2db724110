"""Searches on paper: an executor that knows the answers, and fails as machines do."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from ci.bisect.belief import Belief, Tally
from ci.bisect.build import UntestableError
from ci.bisect.executor import Executor
from ci.bisect.record import Record
from ci.bisect.search import Search
from ci.config.bisect_model import Bisect
from ci.core.errors import CommandError
from ci.record.result import Result
from ci.record.verdict import Verdict


def record_of(candidates: int) -> Record:
    commits = [f"{one:040x}" for one in range(1, candidates + 2)]
    return Record(
        test="test_a.py::TestA::test_b", device="cpu", builder="checkout", repository="/r", commits=commits
    )


def belief_of(last: int, tallies: dict[int, Tally] | None = None, /, **settings: float) -> Belief:
    return Belief(last=last, tallies=tallies or {}, limits=Bisect.model_validate(settings))


class Knowing:
    """Commits from `broken` on fail; `untestable` and `away` say which cannot be tried, and how often."""

    def __init__(
        self, broken: int, untestable: set[int] | None = None, away: dict[int, int] | None = None
    ) -> None:
        self.broken, self.untestable, self.away = broken, untestable or set(), away or {}
        self.stop, self.ended = threading.Event(), 0
        self.prepared_at: list[int] = []
        self.lock = threading.Lock()

    @contextmanager
    def prepared(self, position: int) -> Iterator[int]:
        with self.lock:
            self.prepared_at.append(position)
            if self.away.get(position, 0):
                self.away[position] -= 1
                raise CommandError("git went away")
        if position in self.untestable:
            raise UntestableError("cannot be built: no compiler takes it")
        yield position

    def attempt(self, position: int) -> Result:
        failed = position >= self.broken
        verdict = Verdict.FAILED if failed else Verdict.PASSED
        return Result(id="t", verdict=verdict, message="E: x" if failed else "", card="cpu:0")

    def end(self) -> None:
        self.ended += 1


def search_of(record: Record, executor: Knowing, **settings: float) -> Search:
    return Search(
        record=record,
        executor=cast("Executor", executor),
        settings=Bisect.model_validate(settings),
        save=lambda: None,
        say=lambda _: None,
    )


def play(
    commits: int,
    broken: int,
    *,
    workers: int = 1,
    p: float = 1.0,
    q: float = 0.0,
    seed: int = 0,
    **settings: float,
) -> tuple[Belief, int]:
    """Search for the first bad of some candidates; the last belief, and the rounds."""
    draw = random.Random(seed)  # noqa: S311  # no secret
    belief, rounds = belief_of(commits, None, **settings), 0
    while asked := belief.next_round(workers):
        rounds += 1
        assert rounds < 500
        visits = dict.fromkeys(asked, 0)
        while left := [one for one in visits if not belief.enough(one, visits[one])]:
            for one in left:
                failed = draw.random() < (p if one >= broken else q)
                tallies = dict(belief.tallies)
                tallies[one] = tallies.get(one, Tally()) + Tally(passed=int(not failed), failed=int(failed))
                belief = belief_of(commits, tallies, **settings)
                visits[one] += 1
    return belief, rounds
