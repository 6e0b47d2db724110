"""Whole and deterministic cuts, and what ended pieces say about the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.pieces import cut, order_groups
from test_selection.plan import Group, Shard


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


def test_a_chain_is_never_cut_and_keeps_its_order() -> None:
    ids = ("a.py::1", "a.py::z", "a.py::b", "a.py::c", "a.py::9")
    test_s = {"a.py::1": 4.0, "a.py::z": 1.0, "a.py::b": 3.0, "a.py::c": 2.0, "a.py::9": 1.0}
    pieces = cut(Group(file="a.py", ids=ids, chains=((1, 3),)), test_s, 5.0)
    assert [(piece.ids, piece.expected_s) for piece in pieces] == [
        (("a.py::1", "a.py::9"), 5.0),
        (("a.py::z", "a.py::b", "a.py::c"), 6.0),
    ]


def test_files_of_many_shards_come_last_and_those_of_a_long_test_first() -> None:
    names = {"shared.py": [2.0], "long.py": [9.0], "own.py": [3.0], "short.py": [1.0]}
    groups = tuple(Group(file=file, ids=(f"{file}::t",)) for file in names)
    shard = Shard(index=0, expected_s=15.0, groups=groups)
    test_s = {f"{file}::t": values[0] for file, values in names.items()}
    found = order_groups(shard, {"shared.py": 8, "long.py": 8}, test_s, long_s=5.0)
    assert [group.file for group in found] == ["long.py", "own.py", "short.py", "shared.py"]
