"""Which kind of file a file is, by its name and its first bytes; pure."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from ci.package.lint.files import File

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
