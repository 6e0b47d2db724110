"""A process of ours imports nothing from the folder it is called in, unless our own packages are there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ci.runner.child import HOME, module_words


def test_the_folder_it_is_called_in_is_no_place_of_packages(tmp_path: Path) -> None:
    assert module_words("a.b", here=tmp_path) == [sys.executable, "-P", "-m", "a.b"]


def test_where_our_packages_are_nothing_else_may_say_so() -> None:
    assert module_words("a.b", here=HOME) == [sys.executable, "-m", "a.b"]
    assert (HOME / "ci" / "runner" / "child.py").is_file()


def test_a_folder_that_was_removed_is_no_place_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert module_words("a.b") == [sys.executable, "-P", "-m", "a.b"]
