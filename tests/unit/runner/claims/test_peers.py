"""Other hosts in a scheduler's sight."""

from __future__ import annotations

from ci.runner.claims.heartbeat import AtWork, Heartbeat, Learnt, read_heartbeat
from ci.runner.claims.peers import Peers, at_work
from ci.runner.claims.table import Changes
from ci.runner.retries import Retries
from ci.runner.scheduler import Claim, Scheduler
from test_selection.pieces import Piece
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
    view.apply(Changes(taken=((0, 1), (1, 0), (1, 1), (2, 0))), [0], 1.0)
    assert made.left_over() == {0: ["a0", "a2"]}
    assert made.sight.left == 2
    assert made.sight.rest[0]["a.py"] == 4.0
    view.apply(Changes(freed=((1, 1), (2, 0))), [0], 2.0)
    assert made.left_over() == {0: ["a0", "a2"], 1: ["b1"], 2: ["c0"]}
    view.apply(Changes(taken=((0, 1),)), [0], 2.0)
    assert made.left_over()[0] == ["a0", "a2"]


def test_posts_of_others_are_seen_until_they_are_gone_and_ones_own_are_ones_own() -> None:
    made = scheduler()
    made.begin(0)
    view = Peers(None, made, ROWS)
    theirs = AtWork(shard=1, file="b.py", fresh=True, left_s=7.0)
    claimed = AtWork(shard=0, file="z.py", fresh=True, left_s=7.0)
    view.apply(Changes(slots=(theirs, claimed)), [0], 3.0)
    sight = made.sight
    assert (sight.known_dead[1], sight.holds[1], sight.fresh[1], sight.busy_until[1]) == (
        False,
        "b.py",
        True,
        10.0,
    )
    assert sight.holds[0] is None
    view.apply(Changes(), [0], 4.0)
    assert sight.known_dead[1]
    assert not sight.known_dead[0]


def test_what_others_learnt_counts_here_too() -> None:
    made = scheduler()
    one = Learnt(shard=1, file="b.py", took_s=9.0, expected_s=3.0, setup=False)
    Peers(None, made, ROWS).apply(Changes(learnt=(one,)), [0], 3.0)
    assert made.sight.scale("b.py") > 1.5


def test_numbers_that_no_plan_has_are_passed_over() -> None:
    made = scheduler()
    strange = Changes(
        taken=((9, 0), (0, 99)),
        freed=((9, 0), (0, 99)),
        slots=(AtWork(shard=9, file=None, fresh=False, left_s=0.0),),
        learnt=(Learnt(shard=9, file="x.py", took_s=1.0, expected_s=1.0, setup=True),),
    )
    Peers(None, made, ROWS).apply(strange, [0], 1.0)
    assert made.sight.left == 5


def test_news_are_heard_as_they_were_said() -> None:
    made = scheduler()
    made.begin(0)
    made.sight.holds[0] = "a.py"
    made.sight.busy_until[0] = 4.5
    news = Heartbeat(
        claims=((0, 1, 2),),
        done=((0, 0),),
        slots=tuple(at_work(made.sight, [0], 3.0)),
        learnt=(Learnt(shard=0, file="a.py", took_s=1.5, expected_s=1.0, setup=True),),
        busy=True,
    )
    assert news.slots == (AtWork(shard=0, file="a.py", fresh=False, left_s=1.5),)
    assert read_heartbeat(news.line()) == news


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
    assert made.ask(2, "c:1+c:2", 0.0) is None
    assert made.left_over().keys() == {1}
