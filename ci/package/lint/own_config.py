"""What of linters' configuration a project brings itself; where it brings none, ours holds."""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ci.core.errors import SettingsError
from ci.package.lint.files import File

DEFAULTS = Path(__file__).parent / "defaults"
RUFF, CODESPELL = DEFAULTS / "ruff.toml", DEFAULTS / "codespell.cfg"
PYPROJECT = "pyproject.toml"
_RUFF_FILES = {"ruff.toml", ".ruff.toml"}
_CLANG_FILES = {".clang-format", "_clang-format"}
_GROOVY_FILES = {".groovylintrc.json", ".groovylintrc.yml", ".groovylintrc.yaml"}
# A program, which looking at a project must not run.
_GROOVY_PROGRAMS = {".groovylintrc.js", ".groovylintrc.cjs"}
_CODESPELL_FILES = ("setup.cfg", ".codespellrc")
# In Python's option parser a beginning names an option, too.
_WRITES = ("write-changes", "interactive")
_LOOKS_AT_NOTHING = ("help", "version")
_NO_OPTION = re.compile(r"-(\d+(\.\d+)?)?")
_OLDEST = re.compile(r">=\s*3\.(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """How words are looked at.

    Attributes:
        own: whether the project says so itself.
        skip: globs of files and folders that are not.
        hidden: whether names that begin with a dot are.
    """

    own: bool
    skip: tuple[str, ...] = ()
    hidden: bool = False

    def looks_at(self, file: File) -> bool:
        """Whether codespell would come to a file, walking from the project's folder.

        It leaves out folders on its way; of a file that is named it asks for that file's name alone.
        """
        parts = file.path.split("/")
        if not self.hidden and any(part.startswith(".") for part in parts):
            return False
        ways = ["/".join(parts[: count + 1]) for count in range(len(parts))]
        names = [*parts, *ways, *(f"./{way}" for way in ways)]
        return not any(fnmatchcase(name, glob) for glob in self.skip for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnConfig:
    """A project's own configuration.

    Attributes:
        ruff: folders whose files ruff has a configuration for; "" is the project's.
        clang_format: the same of clang-format.
        groovy: whether the project's folder has rules of npm-groovy-lint, and they are no program.
        spelling: codespell's.
        python: the oldest Python the project supports, such as py311; empty where it does not say.
        containerfiles: globs of the settings.
    """

    ruff: frozenset[str] = frozenset()
    clang_format: frozenset[str] = frozenset()
    groovy: bool = False
    spelling: Spelling = Spelling(own=False)
    python: str = ""
    containerfiles: tuple[str, ...] = ()

    def has_ruff(self, file: File) -> bool:
        """Whether the project says how a Python file is to be."""
        return _is_below(file, self.ruff)

    def has_clang_format(self, file: File) -> bool:
        """Whether the project says how a C++ file is to look."""
        return _is_below(file, self.clang_format)


def own_config(
    files: Sequence[File],
    read: Callable[[str], bytes | None],
    *,
    above: Iterable[Mapping[str, bytes]] = (),
    containerfiles: Iterable[str] = (),
    spells: bool = True,
) -> OwnConfig:
    """What a project brings.

    Linters read what lies on the disk, also what Git ignores and what a link leads to.

    Args:
        files: all of it.
        read: the bytes of a file on the disk, by its path in the project; None: none is there.
        above: the configuration files, by name, of each folder between the project and the top of its
            repository, whose files hold for the project as well.
        containerfiles: globs of the settings.
        spells: whether codespell looks.

    Raises:
        SettingsError: codespell is configured to write, or to look at nothing.
    """
    root = {name: read(name) or b"" for name in (PYPROJECT, *_CODESPELL_FILES)}
    folders = _folders(files)
    ruff = {one for one in folders if any(read(_in(one, name)) is not None for name in _RUFF_FILES)}
    ruff |= {one for one in folders if "ruff" in _tools(read(_in(one, PYPROJECT)) or b"")}
    clang = {one for one in folders if any(read(_in(one, name)) is not None for name in _CLANG_FILES)}
    for folder in above:
        if _RUFF_FILES & folder.keys() or "ruff" in _tools(folder.get(PYPROJECT, b"")):
            ruff.add("")
        if _CLANG_FILES & folder.keys():
            clang.add("")
    return OwnConfig(
        ruff=frozenset(ruff),
        clang_format=frozenset(clang),
        groovy=_has_groovy_rules(read),
        spelling=_spelling(root) if spells else Spelling(own=False),
        python=_oldest_python(root[PYPROJECT]),
        containerfiles=tuple(containerfiles),
    )


def read_below(folder: Path) -> Callable[[str], bytes | None]:
    """What reads a file on the disk, by its path in a folder; it gives None where none can be read."""

    def read(name: str) -> bytes | None:
        path = folder / name
        try:
            return path.read_bytes() if path.is_file() else None
        except OSError:
            return None

    return read


def read_above(folder: Path) -> list[dict[str, bytes]]:
    """The configuration files of the folders between a project and the top of its repository."""
    found: list[dict[str, bytes]] = []
    here = folder.resolve()
    while not (here / ".git").exists() and here != here.parent:
        here = here.parent
        names = [*_RUFF_FILES, *_CLANG_FILES, PYPROJECT]
        found.append({name: (here / name).read_bytes() for name in names if (here / name).is_file()})
    return found if here != here.parent else []


def _folders(files: Sequence[File]) -> set[str]:
    """Every folder with a file in it, however deep; "" is the project's."""
    found = {""}
    for file in files:
        here = file.path.rpartition("/")[0]
        while here not in found:
            found.add(here)
            here = here.rpartition("/")[0]
    return found


def _has_groovy_rules(read: Callable[[str], bytes | None]) -> bool:
    def there(names: Iterable[str]) -> bool:
        return any(read(name) is not None for name in names)

    return there(_GROOVY_FILES) and not there(_GROOVY_PROGRAMS)


def _in(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _is_below(file: File, folders: frozenset[str]) -> bool:
    parts = file.path.split("/")[:-1]
    return any("/".join(parts[:count]) in folders for count in range(len(parts) + 1))


def _toml(text: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return {}  # whoever owns the file says so: ruff, or who builds the project


def _tools(text: bytes) -> Mapping[str, Any]:
    found = _toml(text).get("tool", {})
    return found if isinstance(found, dict) else {}


def _oldest_python(pyproject: bytes) -> str:
    said = _toml(pyproject).get("project", {})
    text = said.get("requires-python", "") if isinstance(said, dict) else ""
    found = _OLDEST.search(text) if isinstance(text, str) else None
    return f"py3{found[1]}" if found else ""


def _spelling(root: Mapping[str, bytes]) -> Spelling:
    """What codespell reads, in its order: a later file wins."""
    said = [_tools(root.get(PYPROJECT, b"")).get("codespell")]
    said += [_ini(root.get(name, b"")) for name in _CODESPELL_FILES]
    tables = [one for one in said if isinstance(one, dict)]
    if not tables:
        return spelling_of(_ini(CODESPELL.read_bytes()) or {}, own=False)
    options = {key: value for table in tables for key, value in table.items() if value is not False}
    return spelling_of(options, own=True)


def spelling_of(options: Mapping[str, Any], *, own: bool) -> Spelling:
    """What codespell's options say of files.

    Raises:
        SettingsError: they have it write, which looking at a project must not, or look at nothing.
    """
    for key, value in options.items():
        # A key may hold its value as well, and a value that begins as an option does is one.
        name, said = key.partition("=")[0].lower(), str(value).strip()
        if any(one.startswith(name) for one in _WRITES):
            raise _refused(
                key, "so looking at files would change them", "run with --fix to change files; or "
            )
        if any(one.startswith(name) for one in _LOOKS_AT_NOTHING):
            raise _refused(key, "so it would end without a look at a file")
        if said.startswith("-") and not _NO_OPTION.fullmatch(said):
            raise _refused(
                f"{key} = {said}", "which it takes for one more option", "write it another way; or "
            )
    said = options.get("skip", "")
    text = ",".join(map(str, said)) if isinstance(said, list) else str(said)
    skip = tuple(glob.strip() for glob in text.replace("\n", ",").split(","))
    return Spelling(own=own, skip=tuple(filter(None, skip)), hidden="check-hidden" in options)


def _refused(said: str, why: str, instead: str = "") -> SettingsError:
    return SettingsError(
        f"codespell is configured with {said!r}, {why}",
        where="[codespell]",
        remedy=f"take it out; {instead}leave codespell out with package.lint.skip",
    )


def _ini(text: bytes) -> dict[str, str] | None:
    """The section [codespell] of an INI file; None where there is none."""
    parser = configparser.ConfigParser(interpolation=None, allow_no_value=True)
    try:
        parser.read_string(text.decode())
    except (configparser.Error, UnicodeDecodeError):
        return None
    if not parser.has_section("codespell"):
        return None
    return {key: value or "" for key, value in parser.items("codespell")}
