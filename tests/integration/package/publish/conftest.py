"""An index that is real, what stands before it, and a checkout whose files were verified."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .releases import USER, Checkout
from .servers import Front, fronted, pypiserver


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """The address of a pypiserver."""
    for name in ("pypiserver", "passlib", "twine", "pypi_simple"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not found")
    with pypiserver(tmp_path / "index") as address:
        yield address


@pytest.fixture
def served(tmp_path: Path, index: str) -> Path:  # noqa: ARG001  # makes it
    """The folder that the index keeps its files in."""
    return tmp_path / "index" / "packages"


@pytest.fixture
def before(index: str) -> Iterator[tuple[Front, str]]:
    with fronted(index) as pair:
        yield pair


@pytest.fixture
def front(before: tuple[Front, str]) -> Front:
    """What stands before the index."""
    return before[0]


def settings_for(address: str, **more: Any) -> dict[str, Any]:
    one = {
        "upload": f"{address}/",
        "simple": f"{address}/simple/",
        "gate": "none",
        "user": USER,
        "timeout_s": 20,
    }
    return {"publish_timeout_s": 30, "indexes": {"stage": {**one, **more}}}


@pytest.fixture
def checkout(tmp_path: Path, before: tuple[Front, str]) -> Checkout:
    """A checkout with a verified wheel and sdist, whose stage is the index behind `front`."""
    made = Checkout(folder=tmp_path / "demo")
    made.make(settings_for(before[1]))
    made.build()
    return made
