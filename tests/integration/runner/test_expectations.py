"""What suite files expect is enforced, test by test, by the real runner with real torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from test_selection.selection import Expectation, Precision

from .small_runs import Runner, make_plan

FILE = """
import pathlib
import random
import unittest

import torch
from torch.testing._internal.common_device_type import (
    dtypes, instantiate_device_type_tests, tol, toleranceOverride,
)
from torch.testing._internal.common_utils import TestCase

MARK = pathlib.Path(__file__).with_name("marks")


def note(what):
    with MARK.open("a") as stream:
        stream.write(what + "\\n")


class TestClose(TestCase):
    @dtypes(torch.float16, torch.float32)
    def test_close(self, device, dtype):
        one = torch.ones(3, device=device, dtype=dtype)
        self.assertEqual(one, one + 0.25)

    @dtypes(torch.float32)
    @toleranceOverride({torch.float32: tol(atol=0.5, rtol=0)})
    def test_decorated(self, device, dtype):
        self.assertEqual(torch.ones(3, device=device), torch.ones(3, device=device) + 0.25)

    def test_near(self, device):
        self.assertEqual(torch.ones(3, device=device), torch.ones(3, device=device) + 0.25)

    def test_grad(self, device):
        self.assertFalse((torch.ones(2, requires_grad=True) * 2).requires_grad)

    def test_seed(self, device):
        drawn = torch.rand(1).item()
        note(f"{drawn:.6f} {random.random():.6f}")

    def test_device_of(self, device):
        self.assertEqual(torch.ones(2), torch.ones(2))


instantiate_device_type_tests(TestClose, globals())


class TestPlain(TestCase):
    def test_near(self):
        self.assertEqual(torch.ones(3), torch.ones(3) + 0.25)

    def test_after(self):
        self.assertEqual((self.precision, self.rel_tol), (0, 0))


class TestSkipped(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        note("set up")

    def test_body(self):
        note("ran")


class TestModes(unittest.TestCase):
    def test_passes(self):
        pass

    def test_fails(self):
        self.fail("no")

    def test_skips(self):
        self.skipTest("no card")


def test_function():
    assert not torch.is_grad_enabled()
"""
CLOSE = "test_expected.py::TestClose::test_"
MODES = "test_expected.py::TestModes::test_"


class Ran:
    """A run of the file with some expectations."""

    def __init__(self, tree: Path, expected: dict[str, Expectation], *more: str) -> None:
        (tree / "test" / "test_expected.py").write_text(FILE)
        runner = Runner(tree)
        runner.run(make_plan({"test_expected.py": [*expected, *more]}), expectations=expected)
        self.outcomes = runner.outcomes()
        self.messages = {event["id"]: event["message"] for event in runner.named("end")}
        marks = tree / "test" / "marks"
        self.marks = marks.read_text().splitlines() if marks.exists() else []


LOOSE = Expectation(mode="mandatory_success", precision=Precision(atol=0.3))


def test_a_tolerance_is_that_of_its_test_and_dtype_alone(tree: Path) -> None:
    expected = {
        f"{CLOSE}close[dtype=float16]": LOOSE,
        "test_expected.py::TestPlain::test_near": LOOSE,
        f"{CLOSE}decorated[dtype=float32]": Expectation(
            mode="mandatory_success", precision=Precision(atol=0.1, rtol=0.01)
        ),
    }
    others = (f"{CLOSE}close[dtype=float32]", f"{CLOSE}near", "test_expected.py::TestPlain::test_after")
    ran = Ran(tree, expected, *others)
    assert ran.outcomes == {
        f"{CLOSE}close[dtype=float16]": "passed",
        f"{CLOSE}close[dtype=float32]": "failed",
        f"{CLOSE}decorated[dtype=float32]": "failed",
        f"{CLOSE}near": "failed",
        "test_expected.py::TestPlain::test_near": "passed",
        "test_expected.py::TestPlain::test_after": "passed",
    }


def test_a_relative_tolerance_alone_is_enough(tree: Path) -> None:
    precise = Expectation(mode="mandatory_success", precision=Precision(rtol=0.3))
    ran = Ran(tree, {f"{CLOSE}near": precise}, f"{CLOSE}decorated[dtype=float32]")
    assert set(ran.outcomes.values()) == {"passed"}


def test_gradients_seeds_and_comparisons_are_as_the_suite_has_them(tree: Path) -> None:
    plain = "mandatory_success"
    ran = Ran(
        tree,
        {
            f"{CLOSE}grad": Expectation(mode=plain, no_grad=True),
            "test_expected.py::test_function": Expectation(mode=plain, no_grad=True),
            f"{CLOSE}device_of": Expectation(mode=plain, cpu_move=("assertEqual", "assertNothing")),
            f"{CLOSE}seed": Expectation(mode=plain, seed=123),
        },
    )
    assert set(ran.outcomes.values()) == {"passed"}
    assert ran.marks == ["0.296112 0.052364"]  # what torch and Python draw first with seed 123


def test_a_test_that_asks_for_none_of_it_keeps_its_gradients(tree: Path) -> None:
    assert set(Ran(tree, {}, f"{CLOSE}grad").outcomes.values()) == {"failed"}


def test_what_is_skipped_is_neither_set_up_nor_run(tree: Path) -> None:
    name = "test_expected.py::TestSkipped::test_body"
    ran = Ran(tree, {name: Expectation(mode="skip", reason="segfaults")})
    assert (ran.outcomes, ran.messages, ran.marks) == ({name: "skipped"}, {name: "segfaults"}, [])


@pytest.mark.parametrize(
    ("mode", "outcomes"),
    [
        ("mandatory_success", {"passes": "passed", "fails": "failed", "skips": "skipped"}),
        ("xfail", {"passes": "xpassed", "fails": "xfailed", "skips": "skipped"}),
        ("xfail_strict", {"passes": "failed", "fails": "xfailed", "skips": "skipped"}),
        ("skip", {"passes": "skipped", "fails": "skipped", "skips": "skipped"}),
    ],
)
def test_a_mode_makes_the_outcome(tree: Path, mode: str, outcomes: dict[str, str]) -> None:
    expected = {f"{MODES}{name}": Expectation(mode=mode, reason="why") for name in outcomes}
    ran = Ran(tree, expected)
    assert ran.outcomes == {f"{MODES}{name}": outcome for name, outcome in outcomes.items()}
    said = ran.messages[f"{MODES}skips"]
    assert said == {
        "mandatory_success": "expected to pass, yet skipped itself: no card", "skip": "why",
    }.get(mode, "no card")  # fmt: skip
