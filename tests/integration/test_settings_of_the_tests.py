"""pytest with this project's settings, in an environment that has more plugins than these tests want."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTEST = (sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml")
WARNS = """
import warnings

def pytest_configure():
    warnings.warn("Benchmarks are automatically disabled because xdist plugin is active.")
"""

TWICE = """
import pytest

def pytest_pycollect_makeitem(collector, name, obj):
    if name == "test_one":
        return [pytest.Function.from_parent(collector, name=name, callobj=obj) for _ in range(2)]
"""


def test_a_plugin_for_benchmarks_ends_no_run_of_several_workers(tmp_path: Path) -> None:
    # Stands for pytest-benchmark, which is registered under this name and warns so.
    info = tmp_path / "pytest_benchmark-5.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pytest-benchmark\nVersion: 5.1\n")
    (info / "entry_points.txt").write_text("[pytest11]\nbenchmark = warns_at_its_start\n")
    (tmp_path / "warns_at_its_start.py").write_text(WARNS)
    (tmp_path / "test_one.py").write_text("def test_one():\n    pass\n")
    done = subprocess.run(
        [*PYTEST, "-n", "1", "--rootdir", tmp_path, tmp_path],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )  # fmt: skip
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout + done.stderr


def test_two_tests_of_one_name_are_refused_where_xdist_would_run_one(tmp_path: Path) -> None:
    (tmp_path / "names_twice.py").write_text(TWICE)
    (tmp_path / "test_one.py").write_text("def test_one():\n    pass\n")
    done = subprocess.run(
        [*PYTEST, "-n", "1", "-p", "tests.conftest", "-p", "names_twice", "--rootdir", tmp_path, tmp_path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout + done.stderr
    assert "more than one test is called test_one.py::test_one" in done.stderr
