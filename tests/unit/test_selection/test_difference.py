"""From A to B: who came, went, moved in, moved out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from test_selection.difference import Side, compare, difference_json, difference_lines
from test_selection.ids import canonical_id

ODD = canonical_id("test_%\n.py", "T", "one", {})
names = st.sets(st.integers(0, 30).map(lambda number: f"test_{number % 3}.py::test_{number}"))


@given(names, names, names, names)
def test_everybody_stands_in_one_list_at_most(a: set[str], b: set[str], old: set[str], new: set[str]) -> None:
    left, right = (
        Side(name="a", known=a, selected={"": old & a}),
        Side(name="b", known=b, selected={"": new & b}),
    )
    found = compare(left, right)
    (moves,) = found.moves
    parts = [found.came, found.went, moves.moved_in, moves.moved_out]
    assert sum(map(len, parts)) == len(set().union(*parts))
    assert (a | set(found.came)) - set(found.went) == b
    stayed = a & b
    assert ((old & stayed) | set(moves.moved_in)) - set(moves.moved_out) == new & stayed
    back = compare(right, left)
    assert (back.came, back.went) == (found.went, found.came)
    same = compare(left, left)
    assert [
        *same.came,
        *same.went,
        *(one for at in same.moves for one in (*at.moved_in, *at.moved_out)),
    ] == []


def test_without_a_catalog_who_is_new_only_moved_in() -> None:
    found = compare(
        Side(name="a", known=None, selected={"": ["x.py::a", "x.py::b"]}),
        Side(name="b", known=["x.py::b", "x.py::c"], selected={"": ["x.py::b", "x.py::c"]}),
    )
    assert (found.came, found.went) == ([], [])
    assert (found.moves[0].moved_in, found.moves[0].moved_out) == (["x.py::c"], ["x.py::a"])


def test_what_only_one_side_selects_is_not_compared() -> None:
    found = compare(Side(name="a", known=["x"], selected={"stage 1": ["x"]}), Side(name="b", known=["x"]))
    assert found.moves == []
    assert difference_lines(found) == ["from a to b", "nothing changed"]


def test_the_lines_count_by_file_and_name_the_first_ids() -> None:
    a = Side(name="a", known=["x.py::1", "x.py::2"], selected={"stage 1": ["x.py::1"]})
    b = Side(
        name="b",
        known=["x.py::1", "x.py::2", *(f"y.py::{number}" for number in range(5))],
        selected={"stage 1": ["x.py::2", "y.py::1"]},
    )
    assert difference_lines(compare(a, b)) == [
        "from a to b",
        "came: 5, such as y.py::0, y.py::1, y.py::2 …",
        "          5 y.py",
        "stage 1: moved in: 1, such as x.py::2",
        "          1 x.py",
        "stage 1: moved out: 1, such as x.py::1",
        "          1 x.py",
    ]
    assert difference_json(compare(a, b)) == {
        "a": "a",
        "b": "b",
        "came": {"y.py": [f"y.py::{number}" for number in range(5)]},
        "went": {},
        "shares": [
            {"share": "stage 1", "moved_in": {"x.py": ["x.py::2"]}, "moved_out": {"x.py": ["x.py::1"]}}
        ],
    }


def test_machines_are_told_what_a_file_is_called_on_disk_and_people_what_ids_call_it() -> None:
    found = compare(Side(name="a", known=[]), Side(name="b", known=[ODD]))
    assert difference_json(found)["came"] == {"test_%\n.py": [ODD]}
    assert difference_lines(found)[-1].endswith("1 test_%25%0A.py")
