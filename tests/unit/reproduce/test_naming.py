from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import MissingInputError, UsageError
from ci.reproduce.naming import COMPARED, find_test, near_names

NODES = {
    "a.py::TestA::test_add[dtype=float32,op=add]": "test/a.py::TestASPYRE::test_add_spyre_float32",
    "a.py::TestA::test_add[dtype=float16,op=add]": "test/a.py::TestASPYRE::test_add_spyre_float16",
    "a.py::TestA::test_sub": "test/a.py::TestASPYRE::test_sub_spyre",
    "sub/b.py::test_sub": "",
}
ADD = next(iter(NODES))


@pytest.mark.parametrize(
    "named",
    [
        ADD,
        "test/a.py::TestASPYRE::test_add_spyre_float32",
        "a.py::TestASPYRE::test_add_spyre_float32",
        "dtype=float32",
        "add_spyre_float32",
    ],
)
def test_a_test_is_found_by_every_name_it_has(named: str) -> None:
    assert find_test(named, NODES, where="r") == ADD


def test_a_whole_id_is_meant_though_others_hold_it() -> None:
    assert find_test("a", {"a": "", "ab": ""}, where="r") == "a"


def test_several_are_listed_quoted_for_a_shell() -> None:
    with pytest.raises(UsageError, match=r"'add' is a part of 2 tests: 'a\.py::TestA.*float32.*float16"):
        find_test("add", NODES, where="r")


def test_of_very_many_the_first_are_listed() -> None:
    with pytest.raises(UsageError, match="t4, and 95 more"):
        find_test("t", {f"t{number}": "" for number in range(100)}, where="r")


def test_one_that_is_not_there_is_told_with_those_near_it() -> None:
    with pytest.raises(MissingInputError, match="no test is called") as caught:
        find_test("a.py::TestA::test_sup", NODES, where="the run")
    assert (caught.value.where, caught.value.exit_code) == ("the run", 2)
    assert "near it: a.py::TestA::test_sub" in str(caught.value)
    with pytest.raises(MissingInputError, match="as the run's report shows it"):
        find_test("zzz", NODES, where="r")


@pytest.mark.parametrize("named", ["", "  ", "x" * 30_000])
def test_no_name_is_no_test(named: str) -> None:
    with pytest.raises(UsageError, match="no test is named"):
        find_test(named, NODES, where="r")


def test_what_is_near_is_looked_for_among_few() -> None:
    names = [f"file_{number}.py::T::x" for number in range(3 * COMPARED)]
    assert near_names(f"file_{3 * COMPARED - 1}.py::T::y", names)[0].startswith("file_")


@given(st.text(min_size=1), st.lists(st.text(min_size=1), unique=True))
def test_whatever_is_named_is_a_test_of_the_run_or_an_error(named: str, names: list[str]) -> None:
    with contextlib.suppress(UsageError, MissingInputError):
        assert find_test(named, dict.fromkeys(names, ""), where="r") in names
