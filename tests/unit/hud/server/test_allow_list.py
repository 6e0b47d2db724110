from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci.core.errors import MissingInputError, SettingsError
from ci.hud.server.allow_list import AllowList, read_allow_list

LISTED = """
L1: [owner/one]
L2:
  - owner/two
  - owner/three: someone, else
L3:
  spyre:
    owner/four: [someone]
L4:
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "allow-list.yaml"
    path.write_text(LISTED)
    return path


def test_levels_are_read_in_upstreams_layout(file: Path) -> None:
    assert read_allow_list(file) == {
        "owner/one": "L1",
        "owner/two": "L2",
        "owner/three": "L2",
        "owner/four": "L3",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("L5: []\n", ["allow-list.yaml:1", "unknown key 'L5'", "known keys: L1, L2, L3, L4"]),
        ("L1: []\nL22: []\n", ["allow-list.yaml:2", "unknown key 'L22'", "did you mean 'L2'"]),
        ("L1: []\nL2: [owner/two, nobody]\n", ["allow-list.yaml:2", "'nobody' is not owner/name"]),
        ("L2:\n  - 5\n", ["allow-list.yaml:1", "5 is not owner/name"]),
        ("L2: owner/two\n", ["allow-list.yaml:1", "'owner/two' is not a list"]),
        ("L1: [owner/a]\nL2:\n  - owner/a\n", ["allow-list.yaml:2", "owner/a is listed twice, first at L1"]),
        ("L3:\n  spyre: [owner/a]\n", ["allow-list.yaml:1", "'spyre' is not a table of keys"]),
        ("- owner/a\n", ["allow-list.yaml:1", "holds a list"]),
        ("L2: [\n", ["is not YAML"]),
    ],
)
def test_a_broken_list_is_told_with_its_line(tmp_path: Path, text: str, expected: list[str]) -> None:
    path = tmp_path / "allow-list.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError) as caught:
        read_allow_list(path)
    for part in expected:
        assert part in str(caught.value)


def test_a_list_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError):
        AllowList(tmp_path / "gone", warn=print)


def changed(path: Path, text: str) -> None:
    path.write_text(text)
    mark = path.stat().st_mtime_ns + 1_000_000
    os.utime(path, ns=(mark, mark))


def test_a_changed_list_is_read_again_and_a_broken_one_changes_nothing(file: Path) -> None:
    said: list[str] = []
    levels = AllowList(file, warn=said.append)
    assert (levels.level("owner/two"), levels.level("owner/new")) == ("L2", None)
    changed(file, "L4: [owner/new]\n")
    assert (levels.level("owner/two"), levels.level("owner/new")) == (None, "L4")
    changed(file, "L4: [broken\n")
    for _ in range(3):
        assert levels.level("owner/new") == "L4"
    (line,) = said
    assert line.startswith("the previous allow-list stays in use: ")
    file.unlink()
    assert levels.level("owner/new") == "L4"
    assert len(said) == 2
    file.write_text(LISTED)
    assert levels.level("owner/two") == "L2"


def test_level_one_is_not_heard(file: Path) -> None:
    assert AllowList(file).heard() == ["owner/two", "owner/three", "owner/four"]


def test_without_a_list_one_repository_is_heard() -> None:
    levels = AllowList(only="o/r")
    assert (levels.level("o/r"), levels.level("O/r")) == ("", None)
    assert levels.heard() == ["o/r"]
