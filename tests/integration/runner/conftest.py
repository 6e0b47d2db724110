from __future__ import annotations

from pathlib import Path

import pytest

from .small_runs import Runner


@pytest.fixture
def runner(tree: Path) -> Runner:
    return Runner(tree)
