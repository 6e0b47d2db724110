"""List the files of a checkout that linters may look at, Git's without what is ignored, with their kinds."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from ci.core.errors import MissingInputError
from ci.core.git import finish_git

HEAD_BYTES = 8192
# Of a checkout without Git.
_LEFT_OUT = {
    ".git", ".hg", ".svn", "__pycache__", ".nox", ".tox", ".venv", "venv", "node_modules", "build", "dist",
    ".spyre-ci", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".eggs",
}  # fmt: skip
_PYTHON = {".py", ".pyi", ".ipynb"}
_SHELL = {".sh", ".bash", ".dash", ".ksh"}
_CXX = {
    ".c", ".cc", ".cpp", ".cxx", ".c++", ".h", ".hh", ".hpp", ".hxx", ".h++", ".cu", ".cuh", ".m", ".mm",
}  # fmt: skip
# What is made into something else first has a syntax of its own.
_TEMPLATES = {".in", ".j2", ".jinja", ".jinja2", ".tmpl", ".template"}
_SHEBANG = re.compile(rb"#!\s*\S*/(?:env\s+(?:-\S+\s+)*)?(\S+)")
_SHELLS = {b"sh", b"bash", b"dash", b"ksh", b"ash"}
_CONTAINERFILE = re.compile(r"(Containerfile|Dockerfile)([._-].*)?|.+\.([Cc]ontainerfile|[Dd]ockerfile)")
_BESIDE = {".dockerignore", ".containerignore", ".md", ".rst", ".txt", ".py", ".sh", ".json", ".yml", ".yaml"}
_GROOVY = {".groovy", ".gvy", ".gy", ".gsh"}
_YAML = {".yml", ".yaml"}


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A regular file of the project.

    Attributes:
        path: relative to the project; bytes that are no UTF-8 are surrogates, as Python has file names.
        head: its first bytes.
    """

    path: str
    head: bytes = b""

    @property
    def name(self) -> str:
        """Without its folder."""
        return self.path.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """What follows the last dot of its name, with the dot; empty where there is none."""
        stem, dot, last = self.name.rpartition(".")
        return f".{last}" if dot and stem else ""

    @property
    def is_binary(self) -> bool:
        """Whether it is no text, as Git and grep decide it."""
        return b"\0" in self.head

    @property
    def is_odd(self) -> bool:
        """Whether its name could be taken for something else where a linter prints it in a line."""
        return not self.path.isprintable()


def files_of(folder: Path) -> tuple[File, ...]:
    """Every regular file of a checkout, by name: tracked, and new ones that are not ignored.

    Links are left out: what they lead to is looked at by its own name, or is not the project's. So are
    submodules, which are projects of their own.

    Raises:
        MissingInputError: there is none.
        CommandError: git did not answer.
    """
    root = folder.resolve()
    names = sorted(set(_listed(root)))
    if not names:  # a folder that the repository around it ignores, or none of Git's
        names = sorted(_walked(root))
    found = tuple(filter(None, (_file(root, name) for name in names)))
    if not found:
        raise MissingInputError(
            "there is no file to look at", where=folder, remedy="name the folder of a project"
        )
    return found


def _listed(root: Path) -> Iterator[str]:
    if not any((parent / ".git").exists() for parent in [root, *root.parents]):
        return
    ended = finish_git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ".")
    if ended.code:
        said = os.fsdecode(ended.stderr).strip()
        raise MissingInputError(
            f"git cannot list the files: {said}", where=root, remedy="check that git can read the checkout"
        )
    yield from (os.fsdecode(name) for name in ended.stdout.split(b"\0") if name)


def _walked(root: Path) -> Iterator[str]:
    for top, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        yield from (os.path.relpath(os.path.join(top, name), root) for name in files)  # noqa: PTH118  # fast


def _file(root: Path, name: str) -> File | None:
    """A file; None where it is gone, no regular one, not readable, or reached through a link."""
    path = root / name
    try:
        if not stat.S_ISREG(path.lstat().st_mode) or not _is_real(path.parent):
            return None
        with path.open("rb") as stream:
            return File(path=name, head=stream.read(HEAD_BYTES))
    except OSError:
        return None


@cache
def _is_real(folder: Path) -> bool:
    """Whether no part of a folder's path is a link; the project's own was resolved before."""
    return folder.resolve() == folder


def is_text(file: File) -> bool:
    """Whether people read it."""
    return not file.is_binary


def is_python(file: File) -> bool:
    """Python, its stubs and notebooks."""
    return file.suffix in _PYTHON


def is_cxx(file: File) -> bool:
    """C, C++, CUDA or Objective-C."""
    return file.suffix in _CXX


def is_shell(file: File) -> bool:
    """A script of a shell that shellcheck knows: by its first line, or by its name where that says none."""
    if file.suffix in _TEMPLATES:
        return False
    if (found := _SHEBANG.match(file.head)) is not None:
        return found[1].rpartition(b"/")[2] in _SHELLS
    return file.suffix in _SHELL


def is_containerfile(file: File, globs: tuple[str, ...] = ()) -> bool:
    """Containerfiles and Dockerfiles, by name or by the globs of the settings."""
    if any(fnmatchcase(file.path, glob) for glob in globs):
        return True
    return _CONTAINERFILE.fullmatch(file.name) is not None and file.suffix not in _BESIDE | _TEMPLATES


def is_groovy(file: File) -> bool:
    """Groovy: Jenkinsfiles, steps of a shared library, jobs."""
    return file.suffix in _GROOVY or (
        file.name.partition(".")[0] == "Jenkinsfile" and file.suffix not in _BESIDE | _TEMPLATES
    )


def is_workflow(file: File) -> bool:
    """A workflow of GitHub Actions."""
    return file.path.rpartition("/")[0] == ".github/workflows" and file.suffix in _YAML


def is_action(file: File) -> bool:
    """An action of GitHub Actions."""
    folder = file.path.rpartition("/")[0]
    return file.name in {"action.yml", "action.yaml"} and (
        not folder or folder.startswith(".github/actions/")
    )
