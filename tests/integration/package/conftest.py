"""What the tests of packaging share: a small project in a real repository, and the command on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from ci.cli.app import run
from tests.calls import Said
from tests.repositories import commit, git

PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "demo"
version = "0.3.0"
description = "made for tests"
readme = "README.md"
license = "Apache-2.0"
license-files = ["LICENSE"]
requires-python = ">=3.11"
scripts = { demo = "demo:main" }

[tool.setuptools]
packages = ["demo"]
"""
FILES = {
    "pyproject.toml": PYPROJECT,
    "README.md": "# demo\n\nMade for tests.\n",
    "LICENSE": "Apache-2.0\n",
    ".gitignore": "dist/\n.spyre-ci/\n",
    "demo/__init__.py": 'def main() -> None:\n    """Say it."""\n    print("demo")\n',
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A project in a repository of its own."""

    folder: Path
    spyre_ci: Callable[..., Said]

    def package(self, verb: str, *arguments: str) -> Said:
        """What `spyre-ci package VERB` on it says."""
        return self.spyre_ci("package", verb, str(self.folder), *arguments)

    def git(self, *words: str) -> str:
        """What git says in it."""
        return git(self.folder, *words)

    def commit(self, files: Mapping[str, str] | None = None) -> str:
        """Write files and commit everything; the commit."""
        return commit(self.folder, files)


@pytest.fixture
def spyre_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Said]:
    """The command, called from a folder that is no project."""
    monkeypatch.setenv("COLUMNS", "300")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)

    def call(*arguments: str) -> Said:
        capfd.readouterr()
        code = run(list(arguments))
        read = capfd.readouterr()
        return Said(code=code, out=read.out, err=read.err)

    return call


@pytest.fixture
def checkout(tmp_path: Path, spyre_ci: Callable[..., Said]) -> Checkout:
    """A small project of one commit."""
    folder = tmp_path / "demo"
    folder.mkdir()
    made = Checkout(folder=folder, spyre_ci=spyre_ci)
    made.commit(FILES)
    return made
