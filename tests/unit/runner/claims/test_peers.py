"""Other hosts in a scheduler's sight."""

from __future__ import annotations

from ci.runner.claims.peers import Peers
from ci.runner.claims.table import Changes
from ci.runner.retries import Retries
from ci.runner.scheduler import Claim, Scheduler
from test_selection.steal import Piece
from tests.unit.runner.plans import OneFile

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


def test_what_others_take_is_no_longer_to_be_had_and_comes_back_with_their_death() -> None:
    made = scheduler()
    view = Peers(None, made, ROWS)
    view.apply(Changes(taken=((0, 1), (1, 0), (1, 1), (2, 0))))
    assert made.left_over() == {0: ["a0", "a2"]}
    assert made.sight.left == 2
    assert made.sight.rest[0]["a.py"] == 4.0
    view.apply(Changes(freed=((1, 1), (2, 0))))
    assert made.left_over() == {0: ["a0", "a2"], 1: ["b1"], 2: ["c0"]}
    view.apply(Changes(taken=((0, 1),)))
    assert made.left_over()[0] == ["a0", "a2"]


def test_numbers_that_no_plan_has_are_passed_over() -> None:
    made = scheduler()
    strange = Changes(
        taken=((9, 0), (0, 99)),
        freed=((9, 0), (0, 99)),
    )
    Peers(None, made, ROWS).apply(strange)
    assert made.sight.left == 5


def test_a_piece_is_run_by_the_time_it_is_claimed_and_one_that_another_has_is_passed_over() -> None:
    times = {(0, 0): 0, (0, 1): 2, (0, 2): 1, (2, 0): 0}
    made = scheduler(claim=lambda shard, piece: times.get((shard, piece.number), 0))
    made.begin(0)
    found = []
    while (job := made.ask(0, "c:0", 0.0)) is not None:
        made.done(0, 0.0, held=made.sight.holds[0])
        found.append((job.piece.ids, job.attempt))
    assert [one for one in found if one[0]] == [(("a1",), 2), (("a2",), 1)]
    made.begin(2)
    setup = made.ask(2, "c:1+c:2", 0.0)
    assert setup is not None
    assert setup.setup
    made.done(2, 0.0, held="c.py")
    assert made.ask(2, "c:1+c:2", 0.0) is None
    assert made.left_over().keys() == {1}
