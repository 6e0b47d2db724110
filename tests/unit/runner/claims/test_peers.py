"""Other hosts in a scheduler's sight."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import pytest

from ci.runner.claims.peers import Peers
from ci.runner.claims.session import ClaimSession
from ci.runner.claims.table import AtWork
from ci.runner.retries import Retries
from ci.runner.scheduler import Claim, Scheduler
from test_selection.pieces import Piece
from test_selection.scheduler_view import scale
from tests.unit.runner.plans import OneFile

from .stores import Memory, MemoryStore

ROWS = [
    [Piece(file="a.py", ids=(f"a{n}",), expected_s=2.0, number=n) for n in range(3)],
    [Piece(file="b.py", ids=(f"b{n}",), expected_s=2.0, number=n) for n in range(2)],
    [Piece(file="c.py", ids=("c0",), expected_s=2.0)],
]


def scheduler(claim: Claim = lambda _shard, _piece: 1) -> Scheduler:
    return Scheduler(
        ROWS,
        file_s={},
        tick_s=1.0,
        steals=True,
        retries=Retries(OneFile(), most=0, budget=0),
        private=(2,),
        claim=claim,
    )


LEASE_S = 10.0


@dataclass(slots=True)
class Two:
    """This host and another, over one store."""

    now: float = 0.0
    memory: Memory = field(default_factory=Memory)

    def session(self, me: str) -> ClaimSession:
        return ClaimSession(
            MemoryStore(self.memory, me), me=me, clock=lambda: self.now, lease_s=LEASE_S, look_s=1.0,
            say=lambda _: None,
        )  # fmt: skip


def test_what_others_take_is_no_longer_to_be_had_and_comes_back_with_their_leave() -> None:
    two = Two()
    mine, other = two.session("a"), two.session("b")
    made = scheduler(mine.claim)
    view = Peers(mine, made, ROWS)
    for shard, number in ((0, 1), (1, 0), (1, 1), (2, 0)):
        assert other.claim(shard, ROWS[shard][number])
    other.done((1, 0))
    other.exchange()
    view.exchange([0], 1.0)
    assert made.left_over() == {0: ["a0", "a2"]}
    assert made.view.left == 2
    assert made.view.rest["a.py"] == 4.0
    other.leave()
    two.now += 3
    view.exchange([0], 1.0)
    assert made.left_over() == {0: ["a0", "a2", "a1"], 1: ["b1"], 2: ["c0"]}


def test_nobody_goes_home_before_he_has_looked_at_what_is_free_again() -> None:
    two = Two()
    mine, other = two.session("a"), two.session("b")
    made = scheduler(mine.claim)
    view = Peers(mine, made, ROWS)
    for shard, row in enumerate(ROWS):
        for piece in row:
            assert other.claim(shard, piece)
    other.exchange()
    view.exchange([0], 1.0)
    assert made.left_over() == {}
    assert view.wait()
    two.now += 1.5
    # The other leaves, and this host hears of it between two looks, where it claims something.
    other.leave()
    mine._hear()
    assert view.wait()
    assert len(list(made.queued())) == 6
    assert not view.wait()


def test_what_is_run_here_or_lost_with_its_worker_is_neither_taken_nor_given_twice() -> None:
    two = Two()
    mine = two.session("a")
    made = scheduler(mine.claim)
    view = Peers(mine, made, ROWS)
    made.begin(2)
    made.tick(0.0)
    assert made.ask(2, "c", 0.0) is not None
    made.done(2, 0.0, held="c.py")
    job = made.ask(2, "c", 0.0)
    assert job is not None
    view.exchange([0], 1.0)
    assert 2 not in made.left_over()
    made.lost(2, ())
    two.now += 3
    view.exchange([0], 1.0)
    assert made.left_over()[2] == ["c0"]


def test_slots_of_others_are_seen_until_they_are_gone_and_ones_own_are_ones_own() -> None:
    two = Two()
    mine, other = two.session("a"), two.session("b")
    made = scheduler(mine.claim)
    made.begin(0)
    peers = Peers(mine, made, ROWS)
    theirs = AtWork(shard=1, file="b.py", fresh=True, left_s=7.0, pace=1.5)
    claimed = AtWork(shard=0, file="z.py", fresh=True, left_s=7.0)
    strange = AtWork(shard=9, file=None, fresh=False, left_s=0.0)
    other.exchange([theirs, claimed, strange])
    peers.exchange([0], 3.0)
    view = made.view
    seen = view.known_dead[1], view.holds[1], view.fresh[1], view.busy_until[1], view.pace(1)
    assert seen == (False, "b.py", True, 10.0, 1.5)
    assert view.holds[0] is None
    other.leave()
    two.now += 3
    peers.exchange([0], 6.0)
    assert view.known_dead[1]
    assert not view.known_dead[0]
    made.begin(1)
    assert view.pace(1) == 1.0  # a card of this host's own works for the shard now


def test_what_pieces_take_is_learnt_by_all_hosts_once() -> None:
    two = Two()
    mine, other = two.session("a"), two.session("b")
    made, far = scheduler(mine.claim), scheduler(other.claim)
    here, there = Peers(mine, made, ROWS), Peers(other, far, ROWS)
    far.begin(1)
    far.view.learn_pace(1, took_s=20.0, expected_s=0.0)  # its card is slow, and not its files
    pace = far.view.pace(1)
    piece = ROWS[1][0]
    there.took(1, piece, 6.0)
    other.took((9, 9), 6.0)  # of no plan
    there.exchange([1], 1.0)
    for moment in (2.0, 3.0):
        two.now += 1
        here.exchange([0], moment)
        assert made.view.pace(1) == pytest.approx(pace, abs=0.001)
        expected = scale(6.0, piece.expected_s, made.view.prior_s)
        assert made.view.scale("b.py") == pytest.approx(expected)


def test_what_slots_are_at_is_said_as_it_is() -> None:
    two = Two()
    mine, other = two.session("a"), two.session("b")
    made = scheduler(mine.claim)
    made.begin(0)
    name = os.fsdecode(b"a\xff.py")
    made.view.holds[0], made.view.busy_until[0] = name, 4.5
    Peers(mine, made, ROWS).exchange([0], 3.0)
    other.exchange()
    assert other.at_work() == [AtWork(shard=0, file=name, fresh=False, left_s=1.5)]


def test_numbers_that_no_plan_has_are_passed_over() -> None:
    two = Two()
    mine, other = two.session("a"), two.session("b")
    made = scheduler(mine.claim)
    for shard, number in ((9, 0), (0, 99)):
        assert other.claim(shard, Piece(file="a.py", ids=("x",), expected_s=1.0, number=number))
    other.exchange()
    Peers(mine, made, ROWS).exchange([0], 1.0)
    assert made.view.left == 5


def test_a_piece_is_run_by_the_time_it_is_claimed_and_one_that_another_has_is_passed_over() -> None:
    times = {(0, 0): 0, (0, 1): 2, (0, 2): 1, (2, 0): 0}
    made = scheduler(claim=lambda shard, piece: times.get((shard, piece.number), 0))
    made.begin(0)
    found = []
    while (job := made.ask(0, "c:0", 0.0)) is not None:
        made.done(0, 0.0, held=made.view.holds[0])
        found.append((job.piece.ids, job.attempt))
    assert [one for one in found if one[0]] == [(("a1",), 2), (("a2",), 1)]
    made.begin(2)
    setup = made.ask(2, "c:1+c:2", 0.0)
    assert setup is not None
    assert setup.setup
    made.done(2, 0.0, held="c.py")
    assert made.ask(2, "c:1+c:2", 0.0) is None
    assert made.left_over().keys() == {1}
