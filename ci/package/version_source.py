"""Find where a project keeps its version, and put another one there before it is built.

A pattern of the settings finds it in a file of any other kind.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from packaging.version import InvalidVersion, Version

from ci.core.errors import BadFileError, UsageError
from ci.package.project import PYPROJECT, Project

# As scikit-build-core's and hatchling's documentation have them, but for the group's name.
DEFAULT = r'(?i)^(__version__|VERSION)(?: ?\: ?str)? *= *([\'"])v?(?P<value>.+?)\2'
# Where nothing says which name the version has, the first of these that is assigned has it.
_NAMES = ("__version__", "VERSION", "version")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A file with the version.

    Attributes:
        path: of it.
        pattern: what finds the version; None: Python assigns it, or it is all there is.
        whole: whether it is all there is.
        names: of the attribute, of which the first counts that is assigned.
    """

    path: Path
    pattern: Pattern | None = None
    whole: bool = False
    names: tuple[str, ...] = _NAMES

    def read(self) -> str:
        """The version; raises BadFileError where there is none."""
        if self.pattern is not None:
            return self.pattern.read(self.path)
        if self.whole:
            return _whole(self.path)
        return str(_assigned(self.path, self.names)[1][-1].value)

    def write(self, version: Version) -> None:
        """Another version in its place; raises BadFileError where there is none."""
        if self.pattern is not None:
            self.pattern.write(self.path, version)
        elif self.whole:
            self.path.write_text(f"{version}\n", encoding="utf-8")
        else:
            _replace_assigned(self.path, version, self.names)


def read_version(tree: Path, project: Project, file: Path | None = None) -> str:
    """The version that a project says it has, wherever it says so.

    Args:
        tree: its sources.
        project: what they are of.
        file: the file with the version, relative to the tree; None: as pyproject.toml says.

    Raises:
        UsageError: it is in none of its files.
        BadFileError: it is not where pyproject.toml says.
    """
    if project.declared_version:
        return project.declared_version
    if (place := _place(tree, project, file)) is None:
        raise UsageError(
            "the project's version is in no file that is known of, and package.version is `declared`",
            where=project.folder / PYPROJECT,
            remedy="set package.version_file to the file with __version__, or package.version: git",
        )
    return place.read().strip()


def put_version(
    tree: Path, project: Project, version: Version, file: Path | None = None
) -> Mapping[str, str]:
    """Make a source tree one of `version`; returns the environment its build needs for that.

    Args:
        tree: a copy of the project's sources, which is changed.
        project: what they are of.
        version: of what is to be built.
        file: the file that holds `__version__`, relative to the tree; None: as pyproject.toml says.

    Raises:
        UsageError: it is not known where the project keeps its version.
        BadFileError: it is not where pyproject.toml says.
    """
    if project.declared_version:
        _replace_declared(tree / PYPROJECT, version)
        return {}
    if (place := _place(tree, project, file)) is not None:
        place.write(version)
        return {}
    if _asks_repository(project):
        name = re.sub(r"\W", "_", project.canonical).upper()
        return {
            "SETUPTOOLS_SCM_PRETEND_VERSION": str(version),
            f"SETUPTOOLS_SCM_PRETEND_VERSION_FOR_{name}": str(version),
        }
    raise UsageError(
        "it is not known where the project keeps its version",
        where=project.folder / PYPROJECT,
        remedy="set package.version_file to the file with __version__, or package.version: declared",
    )


def _asks_repository(project: Project) -> bool:
    if project.tool("setuptools_scm") is not None or project.tool("hatch", "version", "source") == "vcs":
        return True
    provider = project.tool("scikit-build", "metadata", "version", "provider")
    return isinstance(provider, str) and provider.endswith("setuptools_scm")


def _place(tree: Path, project: Project, file: Path | None) -> _Place | None:
    """Where the version is, as the settings or one of the build back ends name it."""
    if file is not None:
        path = _inside(tree, file)
        return _Place(path=path, whole=path.suffix != ".py" and _is_version(path))
    attribute = project.tool("setuptools", "dynamic", "version", "attr")
    if isinstance(attribute, str):
        module, _, name = attribute.rpartition(".")
        return _Place(path=_inside(tree, _file_of_module(tree, module, project)), names=(name,))
    if (told := project.tool("setuptools", "dynamic", "version", "file")) is not None:
        name = told[0] if isinstance(told, list) and told else told
        return _Place(path=_inside(tree, Path(str(name))), whole=True)
    if isinstance(path_of := project.tool("hatch", "version", "path"), str):
        regex = project.tool("hatch", "version", "pattern")
        wanted = Pattern(regex=regex, group="version") if isinstance(regex, str) else None
        return _found(_inside(tree, Path(path_of)), wanted)
    told = project.tool("scikit-build", "metadata", "version") or {}
    if isinstance(told, dict) and isinstance(told.get("input"), str):
        keys = ("regex", "result", "remove")
        given = {key: told[key] for key in keys if isinstance(told.get(key), str)}
        return _found(_inside(tree, Path(told["input"])), Pattern(**given) if given else None)
    return None


def _found(path: Path, wanted: Pattern | None) -> _Place:
    """A file in which the back end looks for what is wanted, or for its default."""
    if wanted is None and path.suffix != ".py":
        wanted = Pattern(regex=DEFAULT)
    return _Place(path=path, pattern=wanted)


def _whole(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFileError(
            f"cannot be read: {error}", where=path, remedy="check where pyproject.toml says the version is"
        ) from error


def _is_version(path: Path) -> bool:
    with suppress(OSError, UnicodeDecodeError, InvalidVersion):
        Version(path.read_text(encoding="utf-8").strip())
        return True
    return False


def _file_of_module(tree: Path, module: str, project: Project) -> Path:
    """A module's file, in the folder its package is kept in (setuptools' package-dir)."""
    dirs: Any = project.tool("setuptools", "package-dir") or {}
    parts = module.split(".")
    roots = [dirs.get(parts[0]), dirs.get("") and f"{dirs['']}/{parts[0]}", parts[0], f"src/{parts[0]}"]
    for root in filter(None, roots):
        base = Path(root, *parts[1:])
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if (tree / path).is_file():
                return path
    raise BadFileError(
        f"the version is an attribute of module {module!r}, and no file of it is here",
        where=tree / PYPROJECT,
        remedy="set package.version_file to it",
    )


def _replace_declared(path: Path, version: Version) -> None:
    document = tomlkit.parse(path.read_text(encoding="utf-8"))
    document["project"]["version"] = str(version)
    path.write_text(tomlkit.dumps(document), encoding="utf-8")


def _assigned(path: Path, names: tuple[str, ...]) -> tuple[str, list[ast.Constant]]:
    """A module's text, and every `__version__ = "…"` on its top level, by the first of the names there is."""
    try:
        text = path.read_text(encoding="utf-8")
        body = ast.parse(text).body
    except (OSError, SyntaxError, ValueError) as error:
        raise BadFileError(
            f"cannot be read: {error}", where=path, remedy="check package.version_file"
        ) from error
    by_name = {name: [one for node in body if (one := _assigned_text(node, name))] for name in names}
    found = next((values for values in by_name.values() if values), [])
    if not found:
        raise BadFileError(
            f"no version is assigned here, such as {names[0]} = '1.2.3'",
            where=path,
            remedy="assign one, or set package.version_file to the file that does",
        )
    return text, found


def _replace_assigned(path: Path, version: Version, names: tuple[str, ...]) -> None:
    """Give the version that a module assigns another value; what else it assigns stays."""
    text, found = _assigned(path, names)
    lines = text.encode().splitlines(keepends=True)
    for value in reversed(found):
        end_line = value.end_lineno or value.lineno
        first, last = lines[value.lineno - 1], lines[end_line - 1]
        new = first[: value.col_offset] + repr(str(version)).encode() + last[value.end_col_offset or 0 :]
        lines[value.lineno - 1 : end_line] = [new]
    path.write_bytes(b"".join(lines))


def _assigned_text(node: ast.stmt, name: str) -> ast.Constant | None:
    """The text a statement assigns to a name; None where it does something else."""
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    else:
        return None
    named = any(isinstance(one, ast.Name) and one.id == name for one in targets)
    value = node.value
    return value if named and isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def _inside(tree: Path, file: Path) -> Path:
    """A file of the tree; refuses one outside."""
    path = (tree / file).resolve()
    if not path.is_relative_to(tree.resolve()):
        raise BadFileError(f"the version's file {str(file)!r} is outside the project", where=tree / PYPROJECT)
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """How a build back end finds a version.

    Attributes:
        regex: the expression.
        group: of it that is the version.
        result: how scikit-build-core makes the version of its groups.
        remove: what it then takes away, as an expression; empty: nothing.
    """

    regex: str = DEFAULT
    group: str = "value"
    result: str = "{value}"
    remove: str = ""

    def read(self, path: Path) -> str:
        """The version in a file.

        Raises:
            BadFileError: it is not there.
        """
        found = self._find(path, _text(path))
        if self.group != "value":
            return found[self.group]
        try:
            made = self.result.format(*found.groups(), **found.groupdict())
        except (LookupError, ValueError) as error:
            raise BadFileError(
                f"its version cannot be made as result = {self.result!r} says: {error}",
                where=path,
                remedy="mend tool.scikit-build.metadata.version",
            ) from error
        return re.sub(self.remove, "", made) if self.remove else made

    def write(self, path: Path, version: Version) -> None:
        """Put another version in the place of the one in a file.

        Raises:
            BadFileError: none is there.
            UsageError: the file cannot hold this one.
        """
        is_cmake = path.suffix == ".cmake" or path.name == "CMakeLists.txt"
        plain = str(version) == version.base_version
        if self.result != "{value}" or self.remove or (is_cmake and not plain):
            raise UsageError(
                f"version {version} cannot be put here: "
                + ("CMake takes numbers alone" if is_cmake else "the version is made of several parts"),
                where=path,
                remedy="set package.version: declared, and the version there by hand",
            )
        text = _text(path)
        start, end = self._find(path, text).span(self.group)
        path.write_bytes(f"{text[:start]}{version}{text[end:]}".encode())

    def _find(self, path: Path, text: str) -> re.Match[str]:
        try:
            found = re.search(self.regex, text, re.MULTILINE)
        except re.error as error:
            raise BadFileError(
                f"regex {self.regex!r} is none: {error}", where=path, remedy="mend it in pyproject.toml"
            ) from error
        if found is None or (self.result == "{value}" and not found.groupdict().get(self.group)):
            raise BadFileError(
                f"no version is here that {self.regex!r} finds as its group {self.group!r}",
                where=path,
                remedy="check the version's setting in pyproject.toml, or set package.version_file",
            )
        return found


def _text(path: Path) -> str:
    try:
        # As it is: line ends stay what they are.
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFileError(
            f"cannot be read: {error}", where=path, remedy="check where pyproject.toml says the version is"
        ) from error
