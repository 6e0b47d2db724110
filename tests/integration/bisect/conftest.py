"""A made history: a small extension project of 64 commits, one of which breaks its test."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.repositories import git

TEST = "test_shout.py::TestShout::test_shout"
_PYPROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "shout"
version = "1.{number}"
[tool.setuptools]
py-modules = ["shout"]
"""
_MODULE = "def shout(text):\n    return text.upper(){broken}\n"
_TESTS = """\
import os
import pathlib
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[1]))
import shout


class TestShout(unittest.TestCase):
    def test_shout(self):
        if wait := os.environ.get("SHOUT_WAITS"):
            pathlib.Path(wait).touch()
            __import__("time").sleep(120)
        self.assertIn(os.environ.get("SHOUT_IS_OF", ""), shout.__file__)
        self.assertEqual(shout.shout("a"), "A")


if __name__ == "__main__":
    unittest.main()
"""


@dataclass(frozen=True, kw_only=True)
class Project:
    """A clone, and its commits in their order."""

    folder: Path
    commits: tuple[str, ...]

    def git(self, *words: str) -> str:
        return git(self.folder, *words)

    def position(self, sha: str) -> int:
        return self.commits.index(sha)


def make(folder: Path, *, commits: int, broken: int, young: int = 0, odd: int = -1) -> Project:
    """Commits 0 to `commits` - 1; the test fails from `broken` on, is there from `young` on."""
    lines: list[str] = []

    def file(path: str, text: str) -> None:
        lines.append(f"M 100644 inline {path}\ndata {len(text.encode())}\n{text}")

    for number in range(commits):
        said = f"Change {number} (#{1000 + number})\n"
        lines.append(
            f"commit refs/heads/main\ncommitter n <n@example.org> {1_700_000_000 + 3600 * number} +0000\n"
            f"data {len(said)}\n{said}"
        )
        file("pyproject.toml", _PYPROJECT.format(number=number))
        file("shout.py", _MODULE.format(broken=" + '!'" if number >= broken else ""))
        file("test/readme.txt", f"{number}\n")
        if number >= young:
            file("test/test_shout.py", "import nothing_there\n" if number == odd else _TESTS)
    folder.mkdir()
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(folder)], check=True)
    subprocess.run(
        ["git", "-C", str(folder), "fast-import", "--quiet"], input="\n".join(lines).encode(), check=True
    )
    project = Project(folder=folder, commits=())
    project.git("reset", "--quiet", "--hard", "main")
    return Project(folder=folder, commits=tuple(project.git("rev-list", "--reverse", "main").split()))


Maker = Callable[..., Project]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Maker]:
    """Makes a project, whose files, refs, settings and index no search may change."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    projects: list[tuple[Project, dict[str, bytes]]] = []

    def maker(name: str = "project", **how: int) -> Project:
        project = make(tmp_path / name, **{"commits": 64, "broken": 40, **how})
        projects.append((project, everything(project.folder)))
        return project

    yield maker
    for project, before in projects:
        assert everything(project.folder) == before


def everything(folder: Path) -> dict[str, bytes]:
    """Every file of a clone with its bytes, Git's own among them."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
