"""The policy: whole and deterministic cuts, help only where it helps, and no end that cannot be reached."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.plan import Group, Shard
from test_selection.steal import Pool, Rest, choose_victim, cut, gain, order_groups, rebalance, scale

rests = st.builds(
    Rest,
    shard=st.integers(0, 50),
    file=st.just("a.py"),
    piece_s=st.floats(0, 10),
    ends_at=st.floats(0, 100) | st.just(math.inf),
    setup_s=st.floats(0, 20),
)
pools = st.lists(
    st.builds(
        Pool,
        file=st.sampled_from(["a.py", "b.py", "c.py", "d.py"]),
        rest_s=st.floats(0, 1000),
        cards=st.integers(0, 20),
        free_s=st.floats(0, 100),
        leavers=st.integers(0, 3),
        setup_s=st.floats(0, 20),
    ),
    max_size=4,
    unique_by=lambda pool: pool.file,
)


@given(st.lists(st.floats(0, 20), min_size=1, max_size=40), st.floats(0.1, 30))
def test_a_group_is_cut_whole_longest_test_first(times: list[float], size: float) -> None:
    ids = tuple(f"a.py::test_{number}" for number in range(len(times)))
    test_s = dict(zip(ids, times, strict=True))
    pieces = cut(Group(file="a.py", ids=ids), test_s, size)
    order = [name for piece in pieces for name in piece.ids]
    assert sorted(order) == sorted(ids)
    if pieces[0].expected_s <= size and len(pieces) > 1 and pieces[1].expected_s > size:
        # Before a long test a short piece shows how far off the file is; all else is longest first.
        order = [name for piece in sorted(pieces, key=lambda one: -test_s[one.ids[0]]) for name in piece.ids]
    assert [test_s[name] for name in order] == sorted(times, reverse=True)
    assert all(len(piece.ids) == 1 or piece.expected_s <= size * (1 + 1e-9) for piece in pieces)
    assert sum(piece.expected_s for piece in pieces) == pytest.approx(sum(times))
    assert cut(Group(file="a.py", ids=ids[::-1]), test_s, size) == pieces


def test_files_of_many_shards_come_last_and_those_of_a_long_test_first() -> None:
    names = {"shared.py": [2.0], "long.py": [9.0], "own.py": [3.0], "short.py": [1.0]}
    groups = tuple(Group(file=file, ids=(f"{file}::t",)) for file in names)
    shard = Shard(index=0, expected_s=15.0, groups=groups)
    test_s = {f"{file}::t": values[0] for file, values in names.items()}
    found = order_groups(shard, {"shared.py": 8, "long.py": 8}, test_s, long_s=5.0)
    assert [group.file for group in found] == ["long.py", "own.py", "short.py", "shared.py"]


@given(st.lists(rests, max_size=8), st.floats(0, 100))
def test_the_victim_gains_most_and_is_the_same_in_any_order(found: list[Rest], now: float) -> None:
    chosen = choose_victim(found, now)
    if chosen is None:
        assert all(gain(rest, now) <= 0 for rest in found)
        return
    assert gain(chosen, now) == max(gain(rest, now) for rest in found)
    other = choose_victim(found[::-1], now)
    assert other is not None
    assert (other.shard, gain(other, now)) == (chosen.shard, gain(chosen, now))


def test_nobody_pays_a_set_up_to_end_later_than_the_owner() -> None:
    rest = Rest(shard=0, file="a.py", piece_s=1.0, ends_at=20.0, setup_s=15.0)
    assert choose_victim([rest], now=5.0) is None
    assert choose_victim([rest], now=3.0) == rest


@given(pools, st.integers(0, 10), st.floats(0, 50))
def test_no_more_cards_move_than_are_idle_or_spared(found: list[Pool], idle: int, now: float) -> None:
    moves = rebalance(found, idle, now)
    assert sum(moves.wanted.values()) <= idle + sum(moves.spared.values())
    for pool in found:
        spared = moves.spared.get(pool.file, 0)
        assert spared <= pool.leavers
        assert spared == 0 or pool.cards - spared >= 1
        assert not (spared and moves.wanted.get(pool.file))


@given(pools, st.integers(0, 10), st.floats(0, 50))
def test_moving_never_puts_the_common_end_off(found: list[Pool], idle: int, now: float) -> None:
    alone = max(
        ((pool.free_s + pool.rest_s) / pool.cards if pool.cards else math.inf for pool in found), default=now
    )
    assert rebalance(found, idle, now).end_s <= max(alone, now)


def test_a_file_without_a_card_wants_one_and_an_early_one_spares_it() -> None:
    late = Pool(file="late.py", rest_s=30.0, cards=0, free_s=0.0, leavers=0, setup_s=5.0)
    early = Pool(file="early.py", rest_s=10.0, cards=4, free_s=40.0, leavers=4, setup_s=5.0)
    moves = rebalance([late, early], idle=0, now=10.0)
    assert moves.wanted["late.py"] >= 1
    assert moves.spared["early.py"] >= 1
    assert moves.end_s < 45


def test_estimates_are_trusted_until_pieces_say_otherwise() -> None:
    assert scale(0.0, 0.0, 5.0) == 1.0
    assert scale(0.0, 0.0, 0.0) == 1.0
    assert scale(200.0, 100.0, 1e-9) == pytest.approx(2.0)
    assert 1.0 < scale(20.0, 10.0, 5.0) < 2.0
