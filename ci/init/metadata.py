"""What a project says of itself: its name and what it registers with torch, read as data; pure."""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ci.init.syntax import called, constants, parsed, text_of

# Entry points that torch calls when it is imported: a back end registers its device there.
GROUP = "torch.backends"
_ENTRY = re.compile(
    r"([A-Za-z0-9_.-]++)\s*+=\s*+([A-Za-z_][A-Za-z0-9_.]*+)\s*+(?::\s*+[A-Za-z0-9_.]*+)?\s*+(?:\[.*\])?"
)
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_PROJECT = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """A project, as its files have it.

    Attributes:
        project: the name it is installed by; empty where it says none.
        packages: top-level packages that register with torch.
        source: the file that says so; empty where none does.
        unread: files that are there and could not be read as what they are.
    """

    project: str = ""
    packages: tuple[str, ...] = ()
    source: str = ""
    unread: tuple[str, ...] = field(default=())


def read_metadata(files: Mapping[str, str]) -> Metadata:
    """Read pyproject.toml, setup.cfg and setup.py, the first that says something first.

    Args:
        files: text by name, of those that are there.
    """
    unread: list[str] = []
    project, source = "", ""
    packages: tuple[str, ...] = ()
    for name, read in (("pyproject.toml", _pyproject), ("setup.cfg", _setup_cfg), ("setup.py", _setup_py)):
        if name not in files:
            continue
        try:
            named, found = read(files[name])
        except (ValueError, SyntaxError, configparser.Error, RecursionError, MemoryError):
            unread.append(name)
            continue
        project = project or (named if _PROJECT.fullmatch(named) else "")
        if found and not packages:
            packages, source = tuple(dict.fromkeys(found)), name
    return Metadata(project=project, packages=packages, source=source, unread=tuple(unread))


def _pyproject(text: str) -> tuple[str, list[str]]:
    content = tomllib.loads(text)
    project = _table(content, "project")
    entries = _table(project, "entry-points", GROUP)
    # Poetry's own table, from before pyproject.toml had one.
    entries = entries or _table(content, "tool", "poetry", "plugins", GROUP)
    name = project.get("name") or _table(content, "tool", "poetry").get("name")
    return str(name or ""), [found for value in entries.values() if (found := _top(str(value)))]


def _table(content: Any, *keys: str) -> dict[str, Any]:
    for key in keys:
        content = content.get(key) if isinstance(content, dict) else None
    return content if isinstance(content, dict) else {}


def _setup_cfg(text: str) -> tuple[str, list[str]]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    lines = parser.get("options.entry_points", GROUP, fallback="").splitlines()
    return parser.get("metadata", "name", fallback=""), list(_packages(lines))


def _setup_py(text: str) -> tuple[str, list[str]]:
    tree = parsed(text)
    known = dict(constants(tree))
    project, lines = "", []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or called(node.func) != "setup":
            continue
        for given in node.keywords:
            if given.arg == "name":
                project = text_of(given.value, known) or ""
            elif given.arg == "entry_points" and isinstance(given.value, ast.Dict):
                lines += _group(given.value)
    return project, list(_packages(lines))


def _group(table: ast.Dict) -> list[str]:
    for key, value in zip(table.keys, table.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == GROUP:
            listed = value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value]
            return [
                one.value for one in listed if isinstance(one, ast.Constant) and isinstance(one.value, str)
            ]
    return []


def _packages(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if (entry := _ENTRY.fullmatch(line.strip())) is not None:
            yield _top(entry[2])


def _top(reference: str) -> str:
    """The top-level package of `package.module:name`."""
    module = reference.partition(":")[0].strip()
    return module.partition(".")[0] if _MODULE.fullmatch(module) else ""
