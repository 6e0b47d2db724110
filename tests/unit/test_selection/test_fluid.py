"""Repairing a packing keeps every second, is never worse, and gets on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.bound import lower_bound
from test_selection.fluid import Packing, gathered, pack, repair
from test_selection.limits import Cards
from test_selection.loads import FileLoad

lengths = st.sampled_from([0.0, 0.5, 1.0, 1.02, 3.0, 5e-324]) | st.floats(0, 20)
files = st.lists(st.tuples(lengths, st.lists(lengths, min_size=1, max_size=12)), min_size=1, max_size=12).map(
    lambda rows: [load(number, *row) for number, row in enumerate(rows)]
)


def load(number: int, setup: float, seconds: list[float]) -> FileLoad:
    ordered = tuple(sorted(seconds, reverse=True))
    ids = tuple(f"f{number}.py::t{one}" for one in range(len(ordered)))
    return FileLoad(file=f"f{number}.py", setup_s=setup, seconds=ordered, ids=ids, total_s=sum(ordered))


def packing_of(loads: list[FileLoad], *shares: list[tuple[int, float]]) -> Packing:
    packing = Packing(loads, Cards(count=len(shares)), 1.0)
    packing.shares = list(map(dict, shares))
    return packing


def ends(packing: Packing) -> list[float]:
    return [
        sum(packing.loads[number].setup_s + part for number, part in one.items()) for one in packing.shares
    ]


@given(files, st.integers(1, 12), st.integers(0, 3))
def test_every_second_stays_and_no_packing_gets_worse(loads: list[FileLoad], shards: int, seed: int) -> None:
    packing = pack(loads, Cards(count=shards), lower_bound(loads, shards))
    assert packing is not None
    before = max(ends(packing))
    repair(packing, 0.0, 50, seed=seed)
    assert len(packing.shares) == shards
    assert max(ends(packing)) <= before * (1 + 1e-9)
    found = gathered(packing.shares)
    for number, one in enumerate(loads):
        assert found.get(number, 0.0) == pytest.approx(one.total_s, abs=1e-6)


@pytest.mark.parametrize(
    ("loads", "shares", "best"),
    [
        # Nine and one, five and five.
        (
            [load(number, 1.0, [one]) for number, one in enumerate([9.0, 5.0, 5.0, 1.0])],
            [[(0, 9.0), (1, 5.0)], [(2, 5.0), (3, 1.0)]],
            12.0,
        ),
        # A file that was cut in two fits one shard whole.
        (
            [load(number, 5.0, [1.0] * 6) for number in range(2)],
            [[(0, 3.0), (1, 3.0)], [(0, 3.0), (1, 3.0)]],
            11.0,
        ),
        # Each shard holds a file of 60 + k with one of 38 - k s, and a set-up of 1 s each.
        (
            [
                load(2 * k + half, 1.0, [0.5] * (2 * (60 + k if half else 38 - k)))
                for k in range(6)
                for half in (0, 1)
            ],
            [[(2 * k, 38.0 - k), (2 * (5 - k) + 1, 65.0 - k)] for k in range(6)],
            100.0,
        ),
    ],
)  # fmt: skip
def test_what_belongs_together_is_brought_together(
    loads: list[FileLoad], shares: list[list[tuple[int, float]]], best: float
) -> None:
    packing = packing_of(loads, *shares)
    repair(packing, best, 5000, seed=1)
    assert max(ends(packing)) == pytest.approx(best)
    assert sum(map(len, packing.shares)) == len(loads)


def test_the_same_seed_finds_the_same() -> None:
    loads = [load(number, 3.0, [0.7 * number, 1.1, 2.3]) for number in range(9)]
    found = []
    for seed in (1, 1, 2):
        packing = pack(loads, Cards(count=4), 12.0)
        assert packing is not None
        repair(packing, 0.0, 20, seed=seed)
        found.append(packing.shares)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("pieces", "shards", "limit", "packed"),
    [
        ({0: 6.0}, 1, 7.0, [{0: 6.0}]),
        ({0: 6.0}, 1, 6.9, None),
        ({0: 6.0}, 2, 4.0, [{0: 3.0}, {0: 3.0}]),
        ({0: 6.0}, 2, 1.0, None),
        ({0: 3.0, 1: 2.0, 2: 1.0}, 2, 6.0, [{0: 3.0, 2: 1.0}, {1: 2.0}]),
    ],
)
def test_pieces_are_cut_only_where_no_shard_takes_them_whole(
    pieces: dict[int, float], shards: int, limit: float, packed: list[dict[int, float]] | None
) -> None:
    loads = [load(number, 1.0, [1.0, 2.0, 3.0]) for number in range(3)]
    packing = Packing(loads, Cards(count=shards), limit, pieces=pieces)
    assert packing.pack() == (packed is not None)
    if packed is not None:
        assert packing.shares == packed
