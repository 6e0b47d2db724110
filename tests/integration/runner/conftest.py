from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .small_runs import Runner

# Input of the runs, as the small tree is: tests that do harm to their process.
collect_ignore = ["faults"]


@pytest.fixture
def runner(tree: Path) -> Runner:
    """Runs plans on the small tree, with files beside it that only the runner's own tests are to meet."""
    shutil.copytree(Path(__file__).parent / "faults", tree / "test", dirs_exist_ok=True)
    return Runner(tree)
