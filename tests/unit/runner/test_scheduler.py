"""Who runs what: everything once, whoever is lost on the way, and nobody where nobody is left."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.runner.retries import Pending, Retries
from ci.runner.scheduler import Job, Scheduler, without
from test_selection.pieces import Piece
from tests.unit.runner.plans import OneFile


def piece(file: str, *ids: str, seconds: float = 1.0) -> Piece:
    return Piece(file=file, ids=ids, expected_s=seconds)


def scheduler(
    pieces: Sequence[Sequence[Piece]],
    *,
    steals: bool = True,
    most: int = 1,
    private: Sequence[int] = (),
    first: Sequence[str] = (),
    apart: Sequence[str] = (),
    retries: Retries | None = None,
) -> Scheduler:
    return Scheduler(
        pieces,
        file_s={"a.py": 2.0, "b.py": 1.0},
        tick_s=1.0,
        steals=steals,
        retries=retries or Retries(OneFile(), most=most, budget=100),
        private=private,
        first=first,
        apart=apart,
    )


def asked(made: Scheduler, slot: int, now: float = 0.0) -> Job | None:
    made.tick(now)
    return made.ask(slot, f"card {slot}", now)


def test_what_ended_leaves_its_piece_and_empty_pieces_go() -> None:
    pieces = [Piece(file="a", ids=("1", "2"), expected_s=4), Piece(file="b", ids=("3",), expected_s=1)]
    assert without(pieces, {"1", "3"}) == [Piece(file="a", ids=("2",), expected_s=2)]
    assert without(pieces, set()) == pieces
    assert without(pieces, {"1", "2", "3"}) == []


def test_a_file_is_set_up_before_a_piece_of_it_is_claimed() -> None:
    made = scheduler([[piece("a.py", "1"), piece("a.py", "2")]])
    made.begin(0)
    first = asked(made, 0)
    assert first is not None
    assert first.setup
    # What a set-up takes says how fast the card is, and nothing of tests.
    assert made.done(0, 4.0, held=made.view.holds[0]) is None
    pace = made.view.pace(0)
    assert pace > 1
    rest = []
    for now in (4.0, 5.0):
        job = asked(made, 0, now)
        assert job is not None
        rest.append(job.piece.ids)
        took = made.done(0, now + 1, held=made.view.holds[0], whole=now == 4.0)
        assert took == (pytest.approx(1 / pace) if now == 4.0 else None)
    assert rest == [("1",), ("2",)]
    assert asked(made, 0, 6.0) is None


@pytest.mark.parametrize("steals", [True, False])
def test_what_comes_first_is_run_before_all_others_by_its_own_slot(steals: bool) -> None:
    rows = [
        [
            piece("a.py", "1", seconds=9.0),
            piece("a.py", "2"),
            piece("b.py", "3", seconds=5.0),
            piece("b.py", "4"),
        ],
        [],
    ]
    made = scheduler(rows, steals=steals, first=["4", "2"])
    for slot in (0, 1):
        made.begin(slot)
    order: list[str] = []
    now = 0.0
    while (job := asked(made, 0, now)) is not None:
        order += job.piece.ids
        now += 1.0
        made.done(0, now, held=made.view.holds[0])
    assert order[:2] == ["2", "4"]
    assert sorted(order[2:]) == ["1", "3"]


def test_what_comes_first_is_for_helpers_once_its_slot_has_ended() -> None:
    made = scheduler([[piece("a.py", "1"), piece("a.py", "2")], []], first=["1"])
    made.begin(0)
    made.begin(1)
    assert made.left_over() == {0: ["2", "1"]}
    made.end(0)
    made.tick(1.0, stuck=True)
    ran: list[str] = []
    while (job := made.ask(1, "card 1", 1.0)) is not None:
        ran += job.piece.ids
        made.done(1, 1.0, held=made.view.holds[1])
        made.tick(1.0, stuck=True)
    assert sorted(ran) == ["1", "2"]


def test_a_file_that_cannot_be_set_up_costs_what_comes_first_too() -> None:
    made = scheduler([[piece("a.py", "1"), piece("a.py", "2"), piece("b.py", "3")]], first=["1"])
    made.begin(0)
    job = asked(made, 0)
    assert job is not None
    assert job.setup
    made.done(0, 1.0, held=None)
    assert [one.ids for one in made.refuse(0, "a.py")] == [("1",), ("2",)]
    assert made.left_over() == {0: ["3"]}


def test_what_went_with_its_host_runs_behind_all_others_and_one_at_a_time() -> None:
    retries = Retries(OneFile({"z": 2}), most=1, budget=0)
    retries.resume(map(Pending, "xyz"))
    made = scheduler([[piece("a.py", "1")], [], []], apart=["1"], retries=retries, private=[2])
    for slot in (0, 1, 2):
        made.begin(slot)
    job = asked(made, 0)
    assert job is not None
    assert job.piece.ids == ("1",)
    made.tick(1.0, stuck=True)
    assert made.ask(1, "card 1", 1.0) is None  # somebody is at work
    made.done(0, 2.0, held=None)
    assert asked(made, 1, 2.0) is None  # another may have something to do
    made.tick(3.0, stuck=True)
    job = made.ask(1, "card 1", 3.0)
    assert job is not None
    assert (job.piece.ids, job.why, job.attempt) == (("x",), "retry", 1)
    assert made.ask(0, "card 0", 3.0) is None
    made.done(1, 4.0, held=None)
    # Of several cards a worker is not kept waiting.
    job = made.ask(2, "card 2+card 3", 4.0)
    assert job is not None
    assert job.piece.ids == ("y",)
    made.lost(2, ())
    assert {one.id for one in retries.waiting} == {"y", "z"}
    # Where it fails, it is tried again as any test.
    retries.failed("x", card="card 1", attempt=1)
    assert [(one.id, one.attempt, one.avoid) for one in retries.refused] == [("x", 2, frozenset({"card 1"}))]


def test_a_piece_that_runs_alone_is_not_set_up_first() -> None:
    made = scheduler([[piece("a.py", "1"), piece("a.py", "2")]], steals=False, apart=["1"])
    made.begin(0)
    jobs = []
    for now in range(3):
        job = asked(made, 0, float(now))
        assert job is not None
        jobs.append((job.setup, job.piece.ids))
        made.done(0, float(now), held=made.view.holds[0])
    assert jobs == [(False, ("1",)), (True, ()), (False, ("2",))]


def test_several_cards_keep_their_shard_to_themselves() -> None:
    made = scheduler([[piece("a.py", "1")], [piece("b.py", str(n)) for n in range(2, 9)]], private=[1])
    made.begin(0)
    made.begin(1)
    for now in range(2):
        assert asked(made, 0, float(now)) is not None
        made.done(0, float(now), held=made.view.holds[0])
    assert asked(made, 0, 9.0) is None
    ran = []
    for _ in range(3):
        job = asked(made, 1, 9.0)
        assert job is not None
        ran.append(job.piece.ids)
        made.done(1, 9.0, held=made.view.holds[1])
    assert ran == [(), ("2",), ("3",)]


def test_who_cannot_set_a_file_up_gives_up_its_own_tests_of_it_only() -> None:
    made = scheduler([[piece("a.py", "1"), piece("b.py", "2")], [piece("a.py", "3")]])
    made.begin(0)
    job = asked(made, 0)
    assert job is not None
    made.done(0, 1.0, held=made.view.holds[0])
    file = job.piece.file
    given_up = made.refuse(0, file)
    assert [one.ids for one in given_up] == ([("1",)] if file == "a.py" else [("2",)])
    assert "3" in [name for ids in made.left_over().values() for name in ids]


@dataclass(slots=True)
class Day:
    """Slots that ask, run, fail tests, die and come back, in a random order."""

    made: Scheduler
    retries: Retries
    rnd: random.Random
    slots: int
    running: dict[int, Job] = field(default_factory=dict)
    ran: Counter[str] = field(default_factory=Counter)
    again: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        for slot in range(self.slots):
            self.made.begin(slot)
        now, waiting = 0.0, 0
        while waiting < 3:
            now += self.rnd.random()
            self.made.tick(now, stuck=not self.running)
            slot = self.rnd.randrange(self.slots)
            if slot in self.running:
                self._end(slot, self.running.pop(slot), now)
                continue
            jobs = [self.made.ask(one, f"card {one}", now) for one in self._free(slot)]
            for one, job in zip(self._free(slot), jobs, strict=True):
                if job is not None:
                    self.running[one] = job
            waiting = 0 if self.running else waiting + 1

    def _free(self, slot: int) -> list[int]:
        """One slot; where nobody is at work, all of them."""
        return [slot] if self.running else list(range(self.slots))

    def _end(self, slot: int, job: Job, now: float) -> None:
        ids = job.piece.ids
        if self.rnd.random() < 0.1:
            ended = ids[: self.rnd.randrange(len(ids) + 1)]
            self._count(job, ended)
            self.made.lost(slot, ended)
            return
        self._count(job, ids)
        self.made.done(slot, now, held=self.made.view.holds[slot])
        for name in ids:
            if self.rnd.random() < 0.1:
                self.failed[name] += 1
                self.retries.failed(name, card=f"card {slot}")

    def _count(self, job: Job, ids: Sequence[str]) -> None:
        (self.again if job.why == "retry" else self.ran).update(ids)


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(["a.py", "b.py", "c.py"]), st.integers(1, 3)), max_size=6),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_every_test_runs_once_whoever_is_lost_on_the_way(
    shards: list[list[tuple[str, int]]], seed: int, steals: bool
) -> None:
    names = iter(range(1000))
    pieces = [
        [piece(file, *(str(next(names)) for _ in range(count))) for file, count in row] for row in shards
    ]
    retries = Retries(OneFile(), most=1, budget=100)
    made = Scheduler(pieces, file_s={"a.py": 2.0}, tick_s=1.0, steals=steals, retries=retries)
    rnd = random.Random(seed)  # noqa: S311  # made-up days, no secret
    day = Day(made, retries, rnd, len(pieces))
    day.run()
    everything = Counter(name for row in pieces for one in row for name in one.ids)
    assert day.ran == everything
    assert made.left_over() == {}
    # On the only card there is nobody else to run them again.
    assert day.again == Counter(set(day.failed) if len(pieces) > 1 else ())


@pytest.mark.parametrize("steals", [True, False])
def test_what_nobody_is_left_for_is_told(steals: bool) -> None:
    made = scheduler([[piece("a.py", "1", "2")], [piece("b.py", "3")]], steals=steals)
    made.begin(0)
    assert asked(made, 0) is not None
    made.lost(0, [])
    made.end(0)
    assert made.left_over() == {0: ["1", "2"], 1: ["3"]}


def test_a_file_that_cannot_be_had_keeps_a_post_from_nothing_else() -> None:
    made = scheduler([[piece("a.py", "1"), piece("b.py", "2")], [piece("a.py", "3"), piece("c.py", "4")]])
    made.begin(0)
    made.refuse(0, "a.py")
    ran: list[str] = []
    for now in range(12):
        made.tick(float(now), stuck=True)
        job = made.ask(0, "card 0", float(now))
        if job is not None:
            ran += job.piece.ids
            made.done(0, now + 0.5, held=made.view.holds[0])
    assert sorted(ran) == ["2", "4"]
    assert made.left_over() == {1: ["3"]}


def test_a_failed_test_waits_until_a_post_changes_files() -> None:
    retries = Retries(OneFile(), most=1, budget=9)
    made = Scheduler(
        [[piece("a.py", "1"), piece("a.py", "2")]], file_s={}, tick_s=1.0, steals=True, retries=retries
    )
    made.begin(0)
    order = []
    for now in range(4):
        job = asked(made, 0, float(now))
        assert job is not None
        order.append((job.why, job.piece.ids))
        made.done(0, now + 0.5, held=made.view.holds[0])
        if now == 0:
            retries.failed("9", card="another")
    assert order == [("plan", ()), ("plan", ("1",)), ("plan", ("2",)), ("retry", ("9",))]
