from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.lanes.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A folder with lanes; what is left of its workers and runs in the end is killed."""
    one = Desk(tmp_path)
    yield one
    one.close()
