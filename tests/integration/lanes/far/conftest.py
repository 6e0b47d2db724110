"""What tests of lanes on a cluster share: an order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ci.lanes.order import Order

MakeOrder = Callable[..., Order]


@pytest.fixture
def make_order(tmp_path: Path) -> MakeOrder:
    def make(attempt: int = 1, due: int = 1_772_366_400) -> Order:
        folder = tmp_path / "lanes" / f"{due}-{attempt}"
        folder.mkdir(parents=True, exist_ok=True)
        return Order(lane="nightly", due=due, attempt=attempt, seed=0, folder=folder)

    return make


@pytest.fixture
def order(make_order: MakeOrder) -> Order:
    return make_order()
