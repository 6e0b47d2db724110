"""The project that is packaged: what its checkout and its pyproject.toml say."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ci.core.errors import BadFileError, MissingInputError
from ci.package.source import Source, read_source

__all__ = ["PYPROJECT", "Project", "Source", "read_project", "read_pyproject", "read_source"]

PYPROJECT = "pyproject.toml"


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


class _Table(BaseModel):
    """What is read of a pyproject.toml, with the kinds that PEP 518 and 621 give it."""

    model_config = ConfigDict(extra="ignore", strict=True)


class _ProjectTable(_Table):
    name: str = Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")
    version: str = ""
    requires_python: str = Field(default="", alias="requires-python")
    dependencies: list[str] = []
    dynamic: list[str] = []

    @field_validator("requires_python")
    @classmethod
    def _is_specifier(cls, text: str) -> str:
        return str(SpecifierSet(text))  # InvalidSpecifier is a ValueError


class _BuildSystem(_Table):
    requires: list[str] = []


class _Pyproject(_Table):
    project: _ProjectTable
    build_system: _BuildSystem = Field(default_factory=_BuildSystem, alias="build-system")
    tool: dict[str, Any] = {}


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
    content = read_pyproject(path)
    return Project(
        folder=folder.resolve(),
        name=content["project"]["name"],
        pyproject=content,
        source=read_source(folder, tag_prefix),
    )


def read_pyproject(path: Path) -> dict[str, Any]:
    """Read a pyproject.toml of a project that has a name.

    Raises:
        BadFileError: it cannot be read, or a key of it is of another kind than PEP 518 and 621 say.
        FileNotFoundError: it is not there.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        _Pyproject.model_validate(content)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadFileError(f"is not TOML: {error}", where=path, remedy="mend it there") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise BadFileError(
            f"{key}: {first['msg']} (seen: {first['input']!r})", where=path, remedy="mend it there"
        ) from error
    return content
