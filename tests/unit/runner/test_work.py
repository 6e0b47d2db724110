"""What a worker is told of a piece."""

from __future__ import annotations

from dataclasses import replace

from ci.runner.scheduler import Job
from ci.runner.work import Work
from test_selection.pieces import Piece
from test_selection.plan import Group, Plan, Shard, fingerprint
from test_selection.selection import Expectation

GROUPS = (
    Group(file="a.py", ids=("a::1", "a::2"), timeout_s=60.0),
    Group(file="b.py", ids=("b::1",), alone=True),
)
SHARDS = (
    Shard(index=0, expected_s=9.0, groups=GROUPS),
    Shard(index=1, expected_s=1.0, groups=(Group(file="c.py", ids=("c::1",)),), cards=2),
    Shard(index=2, expected_s=0.0, groups=()),
)
PLAN = Plan(fingerprint=fingerprint(SHARDS), bound_s=9, makespan_s=9, binds="balance", shards=SHARDS)
EXPECTED = Expectation(mode="xfail", reason="known")


def work(*shards: int) -> Work:
    return Work(
        PLAN,
        [SHARDS[number] for number in shards],
        durations={"a::1": 4.0, "a::2": 4.0},
        expectations={"a::2": EXPECTED, "b::1": EXPECTED},
        timeouts={"a::1": 30.0, "a::2": 90.0, "b::1": 20.0},
        spawned={"c.py"},
    )


def test_shards_without_tests_are_nobodys_and_pieces_of_others_are_not_here() -> None:
    found = work(0, 2)
    assert [shard.index for shard in found.shards] == [0]
    assert [len(row) for row in found.pieces] == [3, 0, 0]
    assert work(0, 1).wide == {1}
    assert found.apart == {"b::1"}


def test_what_is_left_of_a_plan_that_is_shared_has_the_pieces_the_others_know() -> None:
    left = replace(
        PLAN, shards=(replace(SHARDS[0], groups=(Group(file="a.py", ids=("a::2",)),)), *SHARDS[1:])
    )
    given = {"durations": {"a::1": 4.0, "a::2": 4.0}, "expectations": {}, "shared": True}
    found = Work(left, [left.shards[0]], whole=PLAN, **given)  # type: ignore[arg-type]  # all as they should be
    whole = Work(PLAN, [SHARDS[0]], **given)  # type: ignore[arg-type]  # all as they should be
    assert found.rows == whole.rows
    assert found.tick_s == whole.tick_s
    assert [len(row) for row in found.table] == [len(row) for row in whole.table]
    ((piece,), _, _) = found.pieces
    assert piece.ids == ("a::2",)
    assert whole.rows[0][piece.number].ids == ("a::2",)


def test_what_comes_first_has_pieces_of_its_own_and_a_chain_stays_whole() -> None:
    groups = (
        Group(file="a.py", ids=("a::1", "a::2", "a::3")),
        Group(file="b.py", ids=("b::1", "b::2"), chains=((0, 2),)),
    )
    shards = (Shard(index=0, expected_s=5.0, groups=groups),)
    plan = Plan(fingerprint=fingerprint(shards), bound_s=5, makespan_s=500, binds="balance", shards=shards)
    found = Work(plan, shards, durations={}, expectations={}, first={"a::2", "b::2"})
    assert sorted(sorted(piece.ids) for piece in found.pieces[0]) == [
        ["a::1", "a::3"],
        ["a::2"],
        ["b::1", "b::2"],
    ]
    assert found.order(Job(piece=found.pieces[0][0], of=0)).do == "run"


def test_a_test_has_its_own_limit_where_that_is_sooner_than_its_files() -> None:
    piece = Piece(file="a.py", ids=("a::1", "a::2"), expected_s=8.0)
    order = work(0).order(Job(piece=piece, of=0))
    assert (order.do, order.file, order.ids) == ("run", "a.py", ("a::1", "a::2"))
    assert order.test_s == 60.0
    assert order.limits == {"a::1": 30.0}
    assert order.expectations == {"a::2": EXPECTED.as_json()}
    assert (order.fresh, order.spawn, order.attempt, order.why) == (False, False, 1, "plan")


def test_what_runs_alone_or_again_wants_a_fresh_process() -> None:
    alone = work(0).order(Job(piece=Piece(file="b.py", ids=("b::1",), expected_s=1.0), of=0))
    assert alone.fresh
    assert alone.limits == {"b::1": 20.0}
    again = work(0).order(
        Job(piece=Piece(file="a.py", ids=("a::1",), expected_s=1.0), of=0, why="retry", attempt=2)
    )
    assert (again.fresh, again.attempt, again.why) == (True, 2, "retry")


def test_a_file_that_starts_processes_is_set_up_in_one_that_is_not_forked() -> None:
    found = work(1)
    assert found.order(Job(piece=Piece(file="c.py", ids=("c::1",), expected_s=1.0), of=1)).spawn
    hold = found.order(Job(piece=Piece(file="c.py", ids=(), expected_s=0.0), of=1))
    assert (hold.do, hold.spawn, hold.ids) == ("hold", True, ())


def test_a_test_is_found_by_its_id() -> None:
    assert work(0, 1).file_of("c::1") == "c.py"
    assert work(0, 1).shard_of("c::1") == 1
    assert work(0).shard(0) is SHARDS[0]


def test_a_piece_says_which_of_its_tests_are_a_chain() -> None:
    group = Group(file="d.py", ids=("d::1", "d::4", "d::3", "d::2"), chains=((1, 2),))
    shards = (Shard(index=0, expected_s=4.0, groups=(group,)),)
    plan = Plan(fingerprint=fingerprint(shards), bound_s=4, makespan_s=4, binds="balance", shards=shards)
    found = Work(plan, shards, durations=dict.fromkeys(group.ids, 1.0), expectations={})
    chains = [found.order(Job(piece=piece, of=0)).chains for piece in found.pieces[0]]
    assert [chain for row in chains for chain in row] == [("d::4", "d::3")]
    alone = Piece(file="d.py", ids=("d::3",), expected_s=1.0)
    assert found.order(Job(piece=alone, of=0, why="retry")).chains == ()
