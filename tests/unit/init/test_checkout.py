"""What of a checkout is looked at: its own sources, within bounds, through no link."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.init import checkout
from ci.init.checkout import read_sources
from ci.init.detect import detect


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1\n")


def test_sources_are_its_own(tmp_path: Path) -> None:
    own = ["setup.py", "torch_acme/__init__.py", "csrc/a.cpp", "csrc/a.h"]
    others = [
        "tests/test_a.py", "build/lib/a.py", ".venv/a.py", "environment/pyvenv.cfg", "environment/lib/a.py",
        "third_party/a.cpp", "README.md",
    ]  # fmt: skip
    write(tmp_path / "checkout", *own, *others)
    write(tmp_path / "elsewhere", "a.py")
    (tmp_path / "checkout" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "checkout" / "link.py").symlink_to(tmp_path / "elsewhere" / "a.py")
    found = read_sources(tmp_path / "checkout")
    assert sorted([*found.python, *found.cxx]) == sorted(own)
    assert found.metadata == {"setup.py": "x = 1\n"}
    assert not found.partly


# Each file is of six signs.
@pytest.mark.parametrize(("limit", "most"), [("MOST_FILES", 2), ("MOST_FOLDERS", 2), ("MOST_IN_ALL", 11)])
def test_a_tree_that_is_too_large_is_looked_at_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    write(tmp_path, "a.py", "b/a.py", "c/a.py")
    monkeypatch.setattr(checkout, limit, most)
    found = read_sources(tmp_path)
    assert found.partly
    assert len(found.python) == 2


def test_a_file_that_is_too_large_and_one_that_is_no_text_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b" " * (checkout.MOST_BYTES + 1))
    (tmp_path / "b.py").write_bytes(b"\xff\x00rename_privateuse1_backend('acme')")
    assert list(read_sources(tmp_path).python) == ["b.py"]
    assert "is assumed" in detect(read_sources(tmp_path)).notes[-1]


def test_a_folder_that_is_no_name_of_a_package_is_none(tmp_path: Path) -> None:
    write(tmp_path, "a\nb: 1/__init__.py")
    assert detect(read_sources(tmp_path)).package == "torch_spyre"


def test_whoever_waits_is_told_how_far_it_is(tmp_path: Path) -> None:
    write(tmp_path, *(f"a{number}.py" for number in range(150)))
    told: list[int] = []
    read_sources(tmp_path, show=told.append)
    assert told == [0, 100]
