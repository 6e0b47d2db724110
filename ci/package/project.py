"""The project that is packaged: what its pyproject.toml says, and where it stands in its repository."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from ci.core.errors import EXIT_INCOMPLETE, BadFileError, MissingInputError, SpyreCiError
from ci.core.git import Part, changes, git, hidden_changes, parts
from ci.core.text import escaped, listed
from test_selection.files import convert

PYPROJECT = "pyproject.toml"
_SHOWN = 3
_Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")]


class ProjectTable(msgspec.Struct, rename="kebab", frozen=True):
    """The table `[project]` (PEP 621), as far as it is read here."""

    name: _Name
    version: str = ""
    requires_python: str = ""
    dependencies: list[str] = []
    optional_dependencies: dict[str, list[str]] = {}
    dynamic: list[str] = []


class BuildSystem(msgspec.Struct, frozen=True):
    """The table `[build-system]` (PEP 518)."""

    requires: list[str] = []


class Pyproject(msgspec.Struct, rename="kebab", frozen=True):
    """A pyproject.toml, as far as it is read here."""

    project: ProjectTable
    build_system: BuildSystem = msgspec.field(default_factory=BuildSystem)
    dependency_groups: dict[str, Any] = {}
    tool: dict[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a project stands in its repository.

    Attributes:
        commit: its SHA; empty where there is no repository that holds the project.
        dirty: files, relative to the project, that differ from the commit.
        untracked: files, relative to the project, that are neither in the commit nor ignored.
        tag: the highest release tag at or before the commit; empty where there is none.
        distance: commits since the tag, or since the first where there is none.
        shallow: whether the clone lacks history, so that tag and distance may be wrong.
        committed_at: seconds since the epoch.
    """

    commit: str = ""
    dirty: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    tag: str = ""
    distance: int = 0
    shallow: bool = False
    committed_at: int = 0

    def as_json(self) -> dict[str, Any]:
        """As records name it."""
        return {"commit": self.commit, "dirty": list(self.dirty)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A checkout: its folder, its pyproject.toml and where it stands."""

    folder: Path
    pyproject: Pyproject
    source: Source = field(default_factory=Source)

    @property
    def name(self) -> str:
        """As it spells it."""
        return self.pyproject.project.name

    @property
    def canonical(self) -> str:
        """The name as indexes spell it."""
        return canonicalize_name(self.name)

    @property
    def requirements(self) -> list[str]:
        """What it needs to be built and to run, as it says."""
        return [*self.pyproject.build_system.requires, *self.pyproject.project.dependencies]

    def tool(self, *keys: str) -> Any:
        """A value below `[tool]`; None where it is not found."""
        found: Any = self.pyproject.tool
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found


class MovedError(SpyreCiError):
    """A checkout that changed, or went to another commit, while it was looked at."""

    exit_code = EXIT_INCOMPLETE


def read_project(
    folder: Path, *, tag_prefix: str = "v", settings: Path | None = None, any_checkout: bool = False
) -> Project:
    """Read a checkout.

    Args:
        folder: the one that holds pyproject.toml.
        tag_prefix: what release tags begin with.
        settings: the settings file, which is a change where the commit does not hold it.
        any_checkout: whether it need be no Python project; it has its folder's name then.

    Raises:
        MissingInputError: there is no such folder, or no pyproject.toml in it.
        BadFileError: pyproject.toml cannot be read, names no project, or a key of it is of a wrong kind.
        CommandError: git did not answer.
    """
    if not folder.is_dir():
        raise MissingInputError(
            "there is no such folder", where=folder, remedy="give the folder of a checkout"
        )
    try:
        pyproject = read_pyproject(folder / PYPROJECT)
    except (BadFileError, MissingInputError):
        if not any_checkout:
            raise
        pyproject = Pyproject(project=ProjectTable(name=folder.resolve().name))
    source = read_source(folder, tag_prefix, settings)
    return Project(folder=folder.resolve(), pyproject=pyproject, source=source)


def read_pyproject(path: Path) -> Pyproject:
    """Read a pyproject.toml of a project that has a name.

    Raises:
        MissingInputError: it is not found.
        BadFileError: it cannot be read, or a key of it is of another kind than PEP 518 and 621 say.
    """
    if not path.is_file():
        remedy = "name the folder of a project that pip can build"
        raise MissingInputError(f"there is no {PYPROJECT} here", where=path.parent, remedy=remedy)
    remedy = "fix this file"
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        found = convert(content, Pyproject, where=path, remedy=remedy)
        SpecifierSet(found.project.requires_python)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadFileError(f"is not TOML: {error}", where=path, remedy=remedy) from error
    except InvalidSpecifier as error:
        raise BadFileError(f"requires-python: {error}", where=path, remedy=remedy) from error
    return found


def read_source(folder: Path, tag_prefix: str = "v", settings: Path | None = None) -> Source:
    """Read where a folder stands; a `Source` without a commit where no repository holds it.

    Raises:
        CommandError: git did not answer.
    """
    if not in_repository(folder):
        return Source()
    held = list(parts(folder))
    if not held[0].entries and not (folder / ".git").exists():
        # The repository around it has nothing of it: its commit says nothing of these files.
        return Source()
    status = git(
        folder, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--no-renames",
        "--ignore-submodules=none", "--", ".",
    )  # fmt: skip
    commit = status.partition("\0")[0].removeprefix("# branch.oid ")
    if commit == "(initial)":
        return Source()  # nothing was committed yet
    tag, distance = _last_release(folder, tag_prefix)
    dirty, untracked = _changes(folder, held, status)
    return Source(
        commit=commit,
        dirty=_printable([*dirty, *_changed_settings(folder, settings)]),
        untracked=_printable(untracked),
        tag=tag,
        distance=distance,
        shallow=git(folder, "rev-parse", "--is-shallow-repository").strip() == "true",
        committed_at=int(git(folder, "log", "-1", "--format=%ct", "HEAD").strip()),
    )


def in_repository(folder: Path) -> bool:
    """Whether a folder is in a checkout of Git."""
    return any((parent / ".git").exists() for parent in [folder.resolve(), *folder.resolve().parents])


def top_of(folder: Path) -> Path:
    """The top folder of the checkout that a folder is in.

    Raises:
        CommandError: it is in none.
    """
    return Path(git(folder, "rev-parse", "--show-toplevel").removesuffix("\n")).resolve()


def _changes(folder: Path, held: Sequence[Part], status: str) -> tuple[list[str], list[str]]:
    """The changed and the untracked files of what Git says, relative to the folder."""
    changed, untracked = changes(status)
    # Git names them from the top of the repository.
    prefix = git(folder, "rev-parse", "--show-prefix").removesuffix("\n")
    hidden = [f"{part.below}{name}" for part in held for name in hidden_changes(part)]
    dirty = [*(name.removeprefix(prefix) for name in changed), *hidden]
    return dirty, [name.removeprefix(prefix) for name in untracked]


def _changed_settings(folder: Path, path: Path | None) -> list[str]:
    """The settings file where the commit does not hold it as it is: it says what is left out of a check.

    Git does not tell of a file that is ignored, and in a larger repository it is not asked outside the
    project. A file from elsewhere is whoever's who named it.
    """
    real = None if path is None else path.resolve()
    if real is None or not real.is_relative_to(top_of(folder)):
        return []
    asked = ("status", "--porcelain", "-z", "--ignored", "--untracked-files=all", "--", str(real))
    return [os.path.relpath(real, folder.resolve())] if git(folder, *asked) else []


def _printable(names: Iterable[str]) -> tuple[str, ...]:
    """Names that can be printed and written to records: bytes that are no UTF-8 stand as escapes."""
    return tuple(dict.fromkeys(os.fsencode(name).decode(errors="backslashreplace") for name in names))


def _last_release(folder: Path, prefix: str) -> tuple[str, int]:
    """The highest release tag at or before HEAD, and the commits since."""
    names = git(folder, "tag", "--merged=HEAD", "--list", f"{prefix}*").split()
    released = {Version(name.removeprefix(prefix)): name for name in names if is_release(name, prefix)}
    tag = released[max(released)] if released else ""
    since = f"refs/tags/{tag}..HEAD" if tag else "HEAD"
    return tag, int(git(folder, "rev-list", "--count", since).strip())


def is_release(tag: str, prefix: str) -> bool:
    """Whether a tag is the prefix and a version (PEP 440); pure."""
    text = tag.removeprefix(prefix)
    try:
        Version(text)
    except InvalidVersion:
        return False
    return tag.startswith(prefix) and text[:1].isdecimal()


def refuse_moved(folder: Path, before: Source, now: Source) -> None:
    """Raise where a checkout is at another commit than before, or differs from it where it did not.

    Raises:
        MovedError: it is not what it was.
    """
    changed = [escaped(name) for name in now.dirty if name not in before.dirty]
    if changed or now.commit != before.commit:
        raise MovedError(
            f"the checkout changed meanwhile: {listed(changed or ['HEAD'], _SHOWN)}",
            where=folder,
            remedy="start again, and do not change it meanwhile",
        )
