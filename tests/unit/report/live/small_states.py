"""A small plan, its state, and events as journals hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ci.record.events import parse
from ci.report.live.news import News
from ci.report.live.state import State
from test_selection.plan import Group, Shard

A, B, C, D = "a.py::T::one", "a.py::T::two", "b.py::T::three", "b.py::T::four"
CARDS = ("card:0", "card:1")


def shard(index: int, groups: Mapping[str, Sequence[str]], expected_s: float = 10.0) -> Shard:
    made = tuple(Group(file=file, ids=tuple(ids)) for file, ids in groups.items())
    return Shard(index=index, expected_s=expected_s, groups=made)


def small_state(
    *shards: Shard,
    cards: Sequence[str] = CARDS,
    expected_s: Mapping[str, float] | None = None,
    setup_s: Mapping[str, float] | None = None,
    now: float = 0.0,
    others: Mapping[str, str] | None = None,
) -> State:
    """Two files on two shards, unless others are given."""
    return State(
        shards or (shard(0, {"a.py": [A, B]}), shard(1, {"b.py": [C, D]})),
        cards=cards,
        expected_s=expected_s or {},
        setup_s=setup_s or {},
        now=now,
        others=others,
    )


class Feed:
    """Feeds a state and keeps the news; every event comes a second after the one before."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.now = 0.0
        self.news: list[News] = []

    def event(self, shard: int, kind: str, **content: Any) -> list[News]:
        self.now += 1
        found = self.state.take(shard, parse({"t": 100 + self.now, "e": kind, **content}), self.now)
        self.news += found
        return found

    def begin(self, shard: int, file: str, *, attempt: int = 1) -> None:
        self.event(shard, "shard_start", attempt=attempt, card=CARDS[shard], fingerprint="f")
        self.event(shard, "group_start", file=file, tests=0)
        self.event(shard, "group_ready", file=file, setup_s=0.5)

    def test(self, shard: int, name: str, outcome: str, message: str = "", **content: Any) -> list[News]:
        again = {"try": content.pop("number")} if "number" in content else {}
        started = self.event(shard, "start", id=name, log=0, **again)
        ended = self.event(
            shard, "end", id=name, outcome=outcome, seconds=1.0, message=message, detail="", **content
        )
        return started + ended
