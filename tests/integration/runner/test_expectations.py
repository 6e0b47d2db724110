"""What suite files expect is enforced, test by test, by the real runner with real torch."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from test_selection.selection import Expectation, Precision
from tests.integration.conftest import TREE

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

MARK = pathlib.Path(__file__).with_suffix(".marks")


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
MUST = "mandatory_success"
LOOSE = Expectation(mode=MUST, precision=Precision(atol=0.3))
MODES = {
    MUST: {"passes": "passed", "fails": "failed", "skips": "skipped"},
    "xfail": {"passes": "xpassed", "fails": "xfailed", "skips": "skipped"},
    "xfail_strict": {"passes": "failed", "fails": "xfailed", "skips": "skipped"},
    "skip": {"passes": "skipped", "fails": "skipped", "skips": "skipped"},
}
# By file what is expected of its tests; each of them is a copy of the one above.
EXPECTED: dict[str, dict[str, Expectation | None]] = {
    "tolerances": {
        "TestClose::test_close[dtype=float16]": LOOSE,
        "TestPlain::test_near": LOOSE,
        "TestClose::test_decorated[dtype=float32]": Expectation(
            mode=MUST, precision=Precision(atol=0.1, rtol=0.01)
        ),
        "TestClose::test_close[dtype=float32]": None,
        "TestClose::test_near": None,
        "TestPlain::test_after": None,
    },
    "relative": {
        "TestClose::test_near": Expectation(mode=MUST, precision=Precision(rtol=0.3)),
        "TestClose::test_decorated[dtype=float32]": None,
    },
    "changed": {
        "TestClose::test_grad": Expectation(mode=MUST, no_grad=True),
        "test_function": Expectation(mode=MUST, no_grad=True),
        "TestClose::test_device_of": Expectation(mode=MUST, cpu_move=("assertEqual", "assertNothing")),
        "TestClose::test_seed": Expectation(mode=MUST, seed=123),
    },
    "unchanged": {"TestClose::test_grad": None},
    "skipped": {"TestSkipped::test_body": Expectation(mode="skip", reason="segfaults")},
    **{
        mode: {f"TestModes::test_{name}": Expectation(mode=mode, reason="why") for name in outcomes}
        for mode, outcomes in MODES.items()
    },
}


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What became of the tests of one file, by their names in it, and what they noted."""

    outcomes: Mapping[str, str]
    messages: Mapping[str, str]
    marks: list[str]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Ran]:
    """All files in one run."""
    pytest.importorskip("torch", reason="torch is not found")
    tree = Path(shutil.copytree(TREE, tmp_path_factory.mktemp("expected") / "pytorch"))
    files = {f"test_{name}.py": expected for name, expected in EXPECTED.items()}
    for file in files:
        (tree / "test" / file).write_text(FILE, encoding="utf-8")
    runner = Runner(tree)
    plan = make_plan({file: [f"{file}::{one}" for one in expected] for file, expected in files.items()})
    declared = {
        f"{file}::{one}": what
        for file, expected in files.items()
        for one, what in expected.items()
        if what is not None
    }
    runner.run(plan, expectations=declared)
    outcomes = runner.outcomes()
    messages = {event["id"]: event["message"] for event in runner.named("end")}
    found = {}
    for name, expected in EXPECTED.items():
        marks = tree / "test" / f"test_{name}.marks"
        found[name] = Ran(
            outcomes={one: outcomes[f"test_{name}.py::{one}"] for one in expected},
            messages={one: messages[f"test_{name}.py::{one}"] for one in expected},
            marks=marks.read_text(encoding="utf-8").splitlines() if marks.exists() else [],
        )
    return found


def test_a_tolerance_is_that_of_its_test_and_dtype_alone(ran: Mapping[str, Ran]) -> None:
    assert ran["tolerances"].outcomes == {
        "TestClose::test_close[dtype=float16]": "passed",
        "TestClose::test_close[dtype=float32]": "failed",
        "TestClose::test_decorated[dtype=float32]": "failed",
        "TestClose::test_near": "failed",
        "TestPlain::test_near": "passed",
        "TestPlain::test_after": "passed",
    }


def test_a_relative_tolerance_alone_is_enough(ran: Mapping[str, Ran]) -> None:
    assert set(ran["relative"].outcomes.values()) == {"passed"}


def test_gradients_seeds_and_comparisons_are_as_the_suite_has_them(ran: Mapping[str, Ran]) -> None:
    assert set(ran["changed"].outcomes.values()) == {"passed"}
    assert ran["changed"].marks == ["0.296112 0.052364"]  # what torch and Python draw first with seed 123


def test_a_test_that_asks_for_none_of_it_keeps_its_gradients(ran: Mapping[str, Ran]) -> None:
    assert set(ran["unchanged"].outcomes.values()) == {"failed"}


def test_what_is_skipped_is_neither_set_up_nor_run(ran: Mapping[str, Ran]) -> None:
    name = "TestSkipped::test_body"
    assert ran["skipped"] == Ran(outcomes={name: "skipped"}, messages={name: "segfaults"}, marks=[])


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_makes_the_outcome(ran: Mapping[str, Ran], mode: str) -> None:
    assert ran[mode].outcomes == {f"TestModes::test_{name}": outcome for name, outcome in MODES[mode].items()}
    said = {MUST: "expected to pass, yet skipped itself: no card", "skip": "why"}.get(mode, "no card")
    assert ran[mode].messages["TestModes::test_skips"] == said
