"""What a person reads of a run of the op suite: little where all is well, and each failure twice."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 300
# A mistake that is easily made: `floor` cuts towards zero. Four of its tests fail by it.
MISTAKE = '    kernels["floor"] = lambda tensor: fallback.compute(torch.trunc, tensor)\n'
FAILING = 4
NAME = r"test_op_suite\.py::TestOpSuite::test_op\[dtype=\w+,op=floor\]"
NUMBERS = r"\d+ of \d+ mismatched, largest 1\.0 at \(\d+, \d+\)"


@pytest.fixture
def checkout(tmp_path: Path, torch_installed: None) -> Path:  # noqa: ARG001  # asks for torch
    """A copy of what runs, to be broken."""
    for name in ("ci", "test_selection"):
        shutil.copytree(ROOT / name, tmp_path / "checkout" / name)
    return tmp_path / "checkout"


def said(checkout: Path, tmp_path: Path, code: int) -> list[str]:
    """What a run of the tests of `floor` prints."""
    outer = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "JENKINS"))}
    outer.pop("CI", None)
    ran = subprocess.run(
        [sys.executable, "-m", "ci.cli", "pytorch", "-k", "floor", "--percent", "100", "--cards", "2"],
        cwd=tmp_path, env=outer | {"PYTHONPATH": str(checkout)}, timeout=TIMEOUT_S,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (code, "")
    # What a machine that is busy adds is no word on the run.
    return [
        line for line in ran.stdout.splitlines() if not line.startswith(("collecting ", "still running: "))
    ]


def test_a_run_without_a_failure_is_eight_lines(checkout: Path, tmp_path: Path) -> None:
    lines = said(checkout, tmp_path, 0)
    assert len(lines) <= 8
    begun = (
        "collected ",
        "selected ",
        "planned ",
        "test_op_suite.py: 27 passed in ",
        "27 planned: 27 passed;",
    )
    for line, begin in zip(lines, (*begun, "exit 0: 27 tests, ", "report: ", "HUD: "), strict=True):
        assert line.startswith(begin)


def test_each_of_four_failures_is_said_when_it_happens_and_once_in_the_end(
    checkout: Path, tmp_path: Path
) -> None:
    kernels = checkout / "ci" / "device" / "kernels.py"
    text = kernels.read_text(encoding="utf-8")
    broken = text.replace("    kernels.update(_convolutions", f"{MISTAKE}    kernels.update(_convolutions", 1)
    assert broken != text
    kernels.write_text(broken, encoding="utf-8")
    lines = said(checkout, tmp_path, 1)
    assert len(lines) <= 25
    live = [line for line in lines if re.fullmatch(rf"FAIL \[\d+\.\ds\] {NAME}  {NUMBERS}", line)]
    ended = [
        line for line in lines if re.fullmatch(rf"FAIL {NAME} on emulated:\d  {NUMBERS} \(2 tries\)", line)
    ]
    again = [line for line in lines if re.fullmatch(rf"  spyre-ci reproduce --run .* -- '{NAME}' \S+", line)]
    assert (len(live), len(ended), len(again)) == (FAILING,) * 3
    assert len([line for line in lines if re.search(NAME, line)]) == 3 * FAILING
    assert [lines.index(line) for line in again] == [lines.index(line) + 1 for line in ended]
