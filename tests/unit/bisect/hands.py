"""Hands that know the answers, and fail as machines do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ci.bisect.answers import Answer, Said
from ci.bisect.asking import Limits
from ci.bisect.record import Question, Record
from ci.bisect.search import Search, UnbuildableError
from ci.core.errors import CommandError

QUESTION = Question(
    test="test_a.py::TestA::test_b", device="cpu", builder="checkout", repository="/r", good="", bad=""
)


def shas(number: int) -> tuple[str, ...]:
    return tuple(f"{one:040x}" for one in range(1, number + 1))


def record_of(candidates: int, **question: str) -> Record:
    asked = {name: getattr(QUESTION, name) for name in Question.__dataclass_fields__} | question
    return Record(question=Question(**asked), commits=shas(candidates + 1))


@dataclass
class Knowing:
    """Commits from `broken` on fail; `odd` says what some do else, `unbuilt` who is not built."""

    broken: int
    odd: dict[int, Callable[[int], Sequence[Answer]]] = field(default_factory=dict)
    unbuilt: frozenset[int] = frozenset()
    away: dict[int, int] = field(default_factory=dict)
    ready_times: list[int] = field(default_factory=list)
    put: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ready(self, position: int) -> int:
        with self.lock:
            self.ready_times.append(position)
            if self.away.get(position, 0) > 0:
                self.away[position] -= 1
                raise CommandError("git went away")
        if position in self.unbuilt:
            raise UnbuildableError("no compiler takes it")
        return position

    def attempt(self, made: int, position: int, tries: int) -> Sequence[Answer]:
        assert made == position
        if position in self.odd:
            return self.odd[position](tries)
        said = Said.FAILED if position >= self.broken else Said.PASSED
        return [Answer(said=said, card="cpu:0", seconds=0.1)] * tries

    def put_down(self) -> None:
        self.put += 1


def searched(record: Record, hands: Knowing, *, workers: int = 1, limits: Limits | None = None) -> Search:
    """A search that keeps nothing, ready to run; `told` are its lines."""
    return Search(
        record=record,
        hands=hands,
        limits=limits or Limits(),
        workers=workers,
        save=lambda _: None,
        told=lambda _: None,
        drawn=lambda _: None,
        clock=lambda: 0.0,
    )
