"""Suite files that other people wrote load as they are, and what is said of them has its place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from test_selection.suite_read import load_suite, suite_paths

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def suites(tmp_path: Path) -> list[Path]:
    """The suite files of the folder that SPYRE_CI_SUITES names."""
    named = os.environ.get("SPYRE_CI_SUITES", "")
    if not named:
        pytest.skip("a folder of suite files (SPYRE_CI_SUITES) is not found")
    return suite_paths([Path(named).resolve()], tmp_path)


def test_they_load(suites: list[Path]) -> None:
    assert suites
    for path in suites:
        assert load_suite(path).files


def test_they_are_checked_to_the_end(suites: list[Path], tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "ci.cli", "suite", "check", *map(str, suites)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode in (0, 2), ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr
    said = [line for line in ended.stdout.splitlines() if "error:" in line or "warning:" in line]
    assert all(any(str(path) in line or path.name in line for path in suites) for line in said)
