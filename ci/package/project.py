"""The project that is packaged: what its checkout and its pyproject.toml say."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from ci.addresses import without_credentials
from ci.errors import BadFileError, CommandError, MissingInputError
from ci.process import run_command

PYPROJECT = "pyproject.toml"
_GIT_TIMEOUT_S = 120
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a project stands in its repository.

    Attributes:
        commit: its SHA; empty where there is no repository.
        url: of the repository it was cloned from, without credentials; empty where there is none.
        dirty: files, relative to the project, that differ from the commit.
        untracked: files that are neither in the commit nor ignored.
        tag: the release tag nearest before the commit; empty where there is none.
        distance: commits since the tag, or since the first where there is none.
        shallow: whether the clone lacks history, so that tag and distance may be wrong.
        committed_at: seconds since the epoch.
    """

    commit: str
    url: str = ""
    dirty: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    tag: str = ""
    distance: int = 0
    shallow: bool = False
    committed_at: int = 0

    def as_json(self) -> dict[str, Any]:
        """As records name it."""
        return {"commit": self.commit, "url": self.url, "dirty": list(self.dirty)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project and its metadata.

    Attributes:
        folder: the one that holds pyproject.toml.
        name: as it spells it.
        pyproject: the whole file.
        source: where it stands.
    """

    folder: Path
    name: str
    pyproject: Mapping[str, Any]
    source: Source

    @property
    def canonical(self) -> str:
        """The name as indexes spell it."""
        return canonicalize_name(self.name)

    @property
    def declared_version(self) -> str:
        """The version that `[project]` states; empty where it is made when it is built."""
        return str(self.pyproject.get("project", {}).get("version", ""))

    @property
    def requires_python(self) -> str:
        """The Pythons it supports, as a specifier; empty where it does not say."""
        return str(self.pyproject.get("project", {}).get("requires-python", ""))

    @property
    def requirements(self) -> list[str]:
        """What it needs to be built and to run, as it says."""
        needed = [
            *self.pyproject.get("build-system", {}).get("requires", []),
            *self.pyproject.get("project", {}).get("dependencies", []),
        ]
        return list(map(str, needed))

    def tool(self, *keys: str) -> Any:
        """A value below `[tool]`; None where it is not there."""
        found: Any = self.pyproject.get("tool", {})
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found


def read_project(folder: Path, *, tag_prefix: str = "v") -> Project:
    """Read a checkout.

    Args:
        folder: the one that holds pyproject.toml.
        tag_prefix: what release tags begin with.

    Raises:
        MissingInputError: there is no such folder, or no pyproject.toml in it.
        BadFileError: pyproject.toml cannot be read or names no project.
        CommandError: git did not answer.
    """
    path = folder / PYPROJECT
    if not path.is_file():
        raise MissingInputError(
            f"there is no {PYPROJECT} here",
            where=folder,
            remedy="name the folder of a project that pip can build",
        )
    content = _pyproject(path)
    name = _name(content, path)
    return Project(
        folder=folder.resolve(), name=name, pyproject=content, source=read_source(folder, tag_prefix)
    )


def project_name(path: Path) -> str:
    """The name that a pyproject.toml gives its project.

    Raises:
        BadFileError: it cannot be read or names no project.
        FileNotFoundError: it is not there.
    """
    return _name(_pyproject(path), path)


def _pyproject(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadFileError(f"is not TOML: {error}", where=path, remedy="mend it there") from error


def _name(content: Mapping[str, Any], path: Path) -> str:
    name = content.get("project", {}).get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadFileError(
            f"[project] has no name that an index takes (seen: {name!r})",
            where=path,
            remedy='give it one of letters, digits, ".", "-" and "_"',
        )
    return name


def read_source(folder: Path, tag_prefix: str = "v") -> Source:
    """Where a folder stands in its repository; a `Source` without a commit where it is in none.

    Raises:
        CommandError: git did not answer.
    """
    if not any((parent / ".git").exists() for parent in [folder.resolve(), *folder.resolve().parents]):
        return Source(commit="")
    commit = _git(folder, "rev-parse", "--verify", "HEAD^{commit}").strip()
    tag, distance = _nearest(folder, tag_prefix)
    status = _git(folder, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--", ".")
    changed, untracked = _changes(status)
    return Source(
        commit=commit,
        url=without_credentials(_origin(folder)),
        dirty=tuple(changed),
        untracked=tuple(untracked),
        tag=tag,
        distance=distance,
        shallow=_git(folder, "rev-parse", "--is-shallow-repository").strip() == "true",
        committed_at=int(_git(folder, "log", "-1", "--format=%ct", "HEAD").strip()),
    )


def _nearest(folder: Path, prefix: str) -> tuple[str, int]:
    """The release tag nearest before HEAD, and the commits since."""
    try:
        said = _git(folder, "describe", "--tags", "--long", "--match", f"{prefix}[0-9]*", "HEAD").strip()
    except CommandError:
        return "", int(_git(folder, "rev-list", "--count", "HEAD").strip())
    tag, distance, _ = said.rsplit("-", 2)
    return tag, int(distance)


def _changes(status: str) -> tuple[list[str], list[str]]:
    """Changed and untracked files of `git status --porcelain -z` (git-status(1))."""
    changed: list[str] = []
    untracked: list[str] = []
    entries = iter(status.split("\0"))
    for entry in entries:
        if not entry:
            continue
        code, path = entry[:2], entry[3:]
        (untracked if code == "??" else changed).append(path)
        if code[0] in "RC":
            next(entries, None)  # the name it had before
    return changed, untracked


def _origin(folder: Path) -> str:
    try:
        return _git(folder, "remote", "get-url", "origin").strip()
    except CommandError:
        return ""


def _git(folder: Path, *words: str) -> str:
    return run_command(
        ["git", "-C", folder, *words],
        timeout_s=_GIT_TIMEOUT_S,
        # `git status` would write the index anew, and looking at a checkout changes nothing there.
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        remedy="check that git can read the checkout",
    )
