"""The project that is packaged: what its checkout and its pyproject.toml say."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from ci.core.errors import BadFileError, MissingInputError
from ci.package.source import Source, read_source

__all__ = ["PYPROJECT", "Project", "Source", "project_name", "read_project", "read_source"]

PYPROJECT = "pyproject.toml"
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


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
        BadFileError: pyproject.toml cannot be read, names no project, or a key of it is of a wrong kind.
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
    check_kinds(content, path)
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


def check_kinds(content: Mapping[str, Any], path: Path) -> None:
    """Refuse a pyproject.toml whose keys that are read here are of another kind than PEP 518 and 621 say.

    Args:
        content: what it says.
        path: of it, for messages.

    Raises:
        BadFileError: a key holds something else; with its name.
    """
    project, system = (_table(content, key, path) for key in ("project", "build-system"))
    _table(content, "tool", path)
    for key in ("version", "requires-python"):
        if not isinstance(project.get(key, ""), str):
            raise _wrong(path, f"project.{key}", "text", project[key])
    lists = {
        "project.dependencies": project.get("dependencies", []),
        "project.dynamic": project.get("dynamic", []),
        "build-system.requires": system.get("requires", []),
    }
    for key, value in lists.items():
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise _wrong(path, key, "a list of texts", value)
    try:
        SpecifierSet(project.get("requires-python", ""))
    except InvalidSpecifier as error:
        raise _wrong(
            path, "project.requires-python", "a specifier such as >=3.11", project["requires-python"]
        ) from error


def _table(content: Mapping[str, Any], key: str, path: Path) -> dict[str, Any]:
    value = content.get(key, {})
    if not isinstance(value, dict):
        raise _wrong(path, key, "a table", value)
    return value


def _wrong(path: Path, key: str, kind: str, seen: Any) -> BadFileError:
    return BadFileError(f"{key} is not {kind} (seen: {seen!r})", where=path, remedy="mend it there")


def _name(content: Mapping[str, Any], path: Path) -> str:
    name = _table(content, "project", path).get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadFileError(
            f"[project] has no name that an index takes (seen: {name!r})",
            where=path,
            remedy='give it one of letters, digits, ".", "-" and "_"',
        )
    return name
