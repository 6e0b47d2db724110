from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ci.runner.imported import when_imported

NAME = "made_to_be_imported_later"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that nobody has imported yet."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    file = tmp_path / f"{NAME}.py"
    file.write_text("VALUE = 1\n", encoding="utf-8")
    yield file
    sys.modules.pop(NAME, None)


def doubled(module: Any) -> None:
    module.VALUE *= 2


@pytest.mark.usefixtures("module")
def test_a_module_that_is_imported_later_is_seen_once_it_is_whole() -> None:
    before = len(sys.meta_path)
    when_imported(NAME, doubled)
    assert NAME not in sys.modules
    assert importlib.import_module(NAME).VALUE == 2
    assert importlib.import_module(NAME).VALUE == 2
    assert len(sys.meta_path) == before


@pytest.mark.usefixtures("module")
def test_a_module_that_is_imported_already_is_seen_at_once() -> None:
    made = importlib.import_module(NAME)
    when_imported(NAME, doubled)
    assert made.VALUE == 2


@pytest.mark.usefixtures("module")
def test_two_may_wait_for_one_module() -> None:
    when_imported(NAME, doubled)
    when_imported(NAME, doubled)
    assert importlib.import_module(NAME).VALUE == 4


@pytest.mark.usefixtures("module")
def test_who_only_looks_for_a_module_is_not_its_import() -> None:
    before = len(sys.meta_path)
    when_imported(NAME, doubled)
    assert importlib.util.find_spec(NAME) is not None
    assert importlib.import_module(NAME).VALUE == 2
    assert len(sys.meta_path) == before


def test_a_module_that_loads_the_second_time_is_seen_then(module: Path) -> None:
    whole = module.read_text(encoding="utf-8")
    module.write_text("raise ValueError('broken')  # for a moment\n", encoding="utf-8")
    when_imported(NAME, doubled)
    with pytest.raises(ValueError, match="broken"):
        importlib.import_module(NAME)
    module.write_text(whole, encoding="utf-8")
    importlib.invalidate_caches()
    assert importlib.import_module(NAME).VALUE == 2


def test_a_module_that_does_not_load_fails_as_it_would(module: Path) -> None:
    module.write_text("raise ValueError('broken')\n", encoding="utf-8")
    when_imported(NAME, doubled)
    with pytest.raises(ValueError, match="broken"):
        importlib.import_module(NAME)


def test_a_module_that_is_not_there_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    when_imported("there_is_no_such_module", doubled)
    with pytest.raises(ModuleNotFoundError, match="there_is_no_such_module"):
        importlib.import_module("there_is_no_such_module")
