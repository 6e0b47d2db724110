"""A store of lanes in memory, which does what turn.py asks of one and refuses what must never come."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo

from ci.config.lanes_model import Lane
from ci.lanes.turn import Known, Look, OpenRun, Turn, first_of_interest, next_try, take_turn

START = int(datetime(2026, 6, 1, tzinfo=UTC).timestamp())


@dataclass
class Store:
    """What a store keeps, as turn.py asks for it."""

    lanes: dict[str, Lane]
    known: dict[str, Known] = field(default_factory=dict)
    taken: dict[str, set[int]] = field(default_factory=dict)
    begun: list[tuple[str, int, int]] = field(default_factory=list)
    stage: int = 1
    at_once: int = 8
    zone: tzinfo = UTC
    late_s: float = 3600
    first: bool = False

    def turn(self, now: float) -> Turn:
        told = {}
        for name, one in self.known.items():
            first = first_of_interest(one, now)
            told[name] = replace(
                one, taken=frozenset(due for due in self.taken.get(name, ()) if due >= first)
            )
        look = Look(
            now=now,
            stage=self.stage,
            zone=self.zone,
            late_s=self.late_s,
            at_once=self.at_once,
            first=self.first,
        )
        turn = take_turn(self.lanes, told, look)
        for name, one in turn.known.items():
            self.known[name] = replace(one, taken=frozenset())
        for skip in turn.skip:
            assert skip.due not in self.taken.get(skip.lane, ())
        for end in turn.give_up:
            self.known[end.lane] = replace(self.known[end.lane], open=None, last_end=now)
        for begin in turn.begin:
            self._begin(begin.lane, begin.due, begin.attempt)
        return turn

    def _take(self, name: str, due: int) -> None:
        taken = self.taken.setdefault(name, set())
        assert due not in taken, "a time was taken twice"
        taken.add(due)

    def _begin(self, name: str, due: int, attempt: int) -> None:
        known = self.known.setdefault(name, Known())
        if attempt == 1:
            assert known.open is None, "a second run was opened"
            self._take(name, due)
        else:
            assert known.open is not None
            assert (known.open.due, known.open.attempt) == (due, attempt - 1)
            assert known.open.next_try is not None, "two attempts at once"
        self.known[name] = replace(known, open=OpenRun(due=due, attempt=attempt))
        self.begun.append((name, due, attempt))

    def end(self, name: str, now: float, *, answered: bool = True) -> None:
        known = self.known[name]
        assert known.open is not None
        later = None if answered else next_try(self.lanes[name], name, known.open, now)
        if later is None:
            self.known[name] = replace(known, open=None, last_end=now)
        else:
            self.known[name] = replace(known, open=replace(known.open, next_try=later))

    def running(self, name: str) -> bool:
        known = self.known.get(name, Known())
        return known.open is not None and known.open.next_try is None
