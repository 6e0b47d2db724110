"""A checkout: where it stands, and what of it is looked at; what cannot be known is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.core.errors import CommandError, UsageError
from ci.init import checkout
from ci.init.checkout import look, read_sources
from ci.init.detect import detect
from ci.init.files import of_bytes


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


def test_where_git_does_not_answer_it_is_said_and_nothing_is_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object, **__: object) -> str:
        raise CommandError("ended with code 128: git -C x\n  | fatal: detected dubious ownership")

    monkeypatch.setattr("ci.init.checkout.git", refuses)
    (tmp_path / ".git").mkdir()
    found = look(tmp_path)
    assert (found.is_root, found.branch) == (True, "main")
    said = "Git was asked in vain (fatal: detected dubious ownership): the branch is assumed to be main"
    assert found.notes == (said,)


def test_a_bare_repository_is_no_checkout(tmp_path: Path) -> None:
    (tmp_path / "HEAD").touch()
    for name in ("objects", "refs"):
        (tmp_path / name).mkdir()
    with pytest.raises(UsageError, match="is a bare repository"):
        look(tmp_path)


def test_a_text_with_a_zero_byte_is_none_that_git_merges() -> None:
    found = of_bytes(b"a\0b\n")
    assert (found.text, found.odd) == (None, "it holds a zero byte")
