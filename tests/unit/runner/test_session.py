"""What nobody asked for is passed by, and nothing else."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from types import ModuleType

import pytest

from ci.runner import instantiation
from ci.runner.session import leave_out, wanted_names


def test_the_numbers_of_clashes_are_left_out_so_that_all_alike_stay() -> None:
    assert wanted_names(["a.py::A::t[x=1]", "a.py::A::t[x=1]#2", "a.py::A::u#3"]) == {
        "a.py::A::t[x=1]",
        "a.py::A::u",
    }


def collected(cls: type[unittest.TestCase]) -> list[str]:
    return [
        name
        for name in unittest.TestLoader().getTestCaseNames(cls)
        if getattr(getattr(cls, name), "__test__", True)
    ]


def generated(**params: str) -> Callable[..., None]:
    """A test as PyTorch instantiates them: what it was made from is the default of a parameter."""

    def instantiated_test(self: object, param_kwargs: object = params) -> None:
        """Generated."""

    return instantiated_test


def test_generated_tests_that_nobody_wants_are_passed_by(monkeypatch: pytest.MonkeyPatch) -> None:
    class TestAddCPU(unittest.TestCase):
        helper = 5

        def test_plain(self) -> None:
            """Written by hand."""

    for op in ("add", "mul"):
        setattr(TestAddCPU, f"test_sum_{op}_cpu_float32", generated(op=op, dtype="float32"))
    made = {
        function: "test_sum" for name, function in vars(TestAddCPU).items() if name.startswith("test_sum")
    }
    monkeypatch.setattr(instantiation, "_TEMPLATES", made)
    monkeypatch.setattr(instantiation, "_GENERIC", {TestAddCPU: "TestAdd"})
    wanted = wanted_names(["a.py::TestAdd::test_sum[dtype=float32,op=mul]#2"])
    assert leave_out(TestAddCPU, "a.py", wanted) == 2
    assert collected(TestAddCPU) == ["test_sum_mul_cpu_float32"]


def test_a_class_that_others_inherit_from_is_left_alone() -> None:
    class TestBase(unittest.TestCase):
        def test_one(self) -> None:
            """Wanted of the other only."""

    class TestOther(TestBase):
        def test_two(self) -> None:
            """Not wanted."""

    assert leave_out(TestBase, "a.py", frozenset()) == 0
    assert leave_out(TestOther, "a.py", frozenset({"a.py::TestOther::test_one"})) == 1
    assert collected(TestOther) == ["test_one"]


@pytest.mark.parametrize("other", [5, "text", dict, ModuleType("m"), pytest])
def test_what_is_no_test_class_is_left_alone(other: object) -> None:
    assert leave_out(other, "a.py", frozenset()) == 0


@pytest.mark.parametrize("wanted", ["first", "second"])
def test_a_function_that_is_two_tests_stays_where_one_of_them_is_wanted(wanted: str) -> None:
    class TestAlias(unittest.TestCase):
        def test_first(self) -> None:
            """Under two names."""

        test_second = test_first

    leave_out(TestAlias, "a.py", wanted_names([f"a.py::TestAlias::test_{wanted}"]))
    assert f"test_{wanted}" in collected(TestAlias)


@pytest.mark.parametrize("wanted", ["TestOne", "TestTwo"])
def test_a_function_that_two_classes_have_stays_where_one_of_them_wants_it(wanted: str) -> None:
    class TestOne(unittest.TestCase):
        def test_shared(self) -> None:
            """In two classes."""

    class TestTwo(unittest.TestCase):
        test_shared = TestOne.test_shared

    for cls in (TestOne, TestTwo):
        leave_out(cls, "a.py", wanted_names([f"a.py::{wanted}::test_shared"]))
    assert collected({"TestOne": TestOne, "TestTwo": TestTwo}[wanted]) == ["test_shared"]
