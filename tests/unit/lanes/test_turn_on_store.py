"""Looks at the clock over the worker's own store: what is noted there lets no time be begun twice."""

from __future__ import annotations

import tempfile
from contextlib import closing
from datetime import UTC
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ci.config.lanes_model import Lane
from ci.lanes.noted import Attempt, Outcome
from ci.lanes.order import Seen, Standing
from ci.lanes.store import Store
from ci.lanes.turn import Look, OpenRun, next_try, take_turn
from tests.lane_settings import lane
from tests.lane_store import START

DAY = 86400


class Desk:
    """A worker without executors: looks, and ends what it began."""

    def __init__(self, lanes: dict[str, Lane], store: Store) -> None:
        self.lanes, self.store = lanes, store
        self.begun: list[tuple[str, int, int]] = []
        self.on: dict[str, Attempt] = {}

    def look(self, now: float) -> list[tuple[str, int]]:
        turn = take_turn(
            self.lanes,
            self.store.known(now),
            Look(now=now, stage=1, zone=UTC, late_s=3600, at_once=8),
        )
        started = self.store.note_turn(turn, self.lanes, now=now)
        assert [(one.lane, one.due) for one in started] == [(one.lane, one.due) for one in turn.begin]
        for one in started:
            assert one.lane not in self.on, "two attempts at once"
            self.on[one.lane] = one
            self.begun.append(one.key)
        return [(one.lane, one.due - START) for one in started]

    def end(self, name: str, now: float, *, answered: bool = True) -> None:
        attempt = self.on.pop(name)
        standing = Standing.PASSED if answered else Standing.GONE
        run = OpenRun(due=attempt.due, attempt=attempt.number)
        again = None if answered else next_try(self.lanes[name], name, run, now)
        self.store.ended(attempt, Outcome(seen=Seen(standing=standing), again_at=again), now=now)


def test_a_clock_that_was_a_year_ahead_for_a_while_blocks_no_lane(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "lanes.sqlite")) as store:
        desk = Desk({"a": lane("0 2 * * *")}, store)
        assert desk.look(START + 3 * 3600) == []
        assert desk.look(START + 365 * DAY + 7200) == [("a", 365 * DAY + 7200)]
        desk.end("a", START + 365 * DAY + 7300)
        assert desk.look(START + 4 * 3600) == []
        # The year that was skipped comes after all.
        for day in (1, 2):
            assert desk.look(START + day * DAY + 7200) == [("a", day * DAY + 7200)]
            desk.end("a", START + day * DAY + 7300)


def test_a_time_that_was_skipped_is_begun_when_the_clock_shows_it_again_and_its_words_change(
    tmp_path: Path,
) -> None:
    with closing(Store(tmp_path / "lanes.sqlite")) as store:
        desk = Desk({"a": lane("0 * * * *")}, store)
        desk.look(START + 1)
        assert desk.look(START + 2 * 3600) == [("a", 7200)]
        desk.end("a", START + 7300)
        desk.look(START + 1800)
        assert desk.look(START + 3600) == [("a", 3600)]
        desk.end("a", START + 3700)
        assert desk.look(START + 7200) == []


@given(
    st.lists(
        st.tuples(
            st.one_of(st.integers(-7200, 7200), st.sampled_from([DAY, -DAY, 365 * DAY, -365 * DAY])),
            st.dictionaries(st.sampled_from("abc"), st.booleans()),
        ),
        max_size=25,
    )
)
def test_over_any_clock_no_time_of_the_store_is_begun_twice(
    events: list[tuple[int, dict[str, bool]]],
) -> None:
    lanes = {
        "a": lane("*/5 * * * *", retries={"most": 2, "first_s": 30}),
        "b": lane({"after_end": {"min": 0.01, "max": 1}}),
        "c": lane("0 2 * * *", retries={"most": 0}),
    }
    with tempfile.TemporaryDirectory() as folder, closing(Store(Path(folder) / "s.sqlite")) as store:
        desk, now = Desk(lanes, store), START
        for jump, ends in events:
            now += jump
            for name, answered in ends.items():
                if name in desk.on:
                    desk.end(name, now, answered=answered)
            desk.look(now)
        assert len(desk.begun) == len(set(desk.begun))
