"""Which back end a checkout is of: what its files say of it, what is assumed, and why; pure.

Files are read as data and none is run: the name a project is installed by, the packages that it registers
with torch, and the name that it gives PrivateUse1.
"""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ci.core.errors import UsageError
from ci.init.checkout import Sources

# Entry points that torch calls when it is imported: a back end registers its device there.
GROUP = "torch.backends"
_ENTRY = re.compile(
    r"([A-Za-z0-9_.-]++)\s*+=\s*+([A-Za-z_][A-Za-z0-9_.]*+)\s*+(?::\s*+[A-Za-z0-9_.]*+)?\s*+(?:\[.*\])?"
)
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_PROJECT = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
FUNCTION, CXX_FUNCTION = "rename_privateuse1_backend", "register_privateuse1_backend"
# Gives the constants of a module by its path.
Constants = Callable[[str], Mapping[str, str]]
# A name torch takes for a device is one of its `device.name` setting, too (ci.config.run_model).
NAME = re.compile(r"[a-z][a-z0-9_]*")
# c10::register_privateuse1_backend("name") is the C++ of torch.utils.rename_privateuse1_backend("name").
_CXX_CALL = re.compile(r'\bregister_privateuse1_backend\s*\(\s*(?:std::string\s*\(\s*)?"([^"\\\n]*)"')
# What is never closed goes on to the end: a search that gave up there would begin anew at every sign.
_CXX_COMMENT = re.compile(r'//[^\n]*|/\*.*?(?:\*/|\Z)|("(?:[^"\\\n]|\\.)*+"?)', re.DOTALL)
# What the toolkit is made for, and what it emulates where there is no card.
SPYRE, SPYRE_PACKAGE = "spyre", "torch_spyre"
# Names by which many packages begin: what is behind them is the likeliest name of the device.
_PREFIXES = ("torch_", "pytorch_")


def parsed(text: str) -> ast.Module:
    """The syntax of a source; what Python would warn of, such as an escape that is none, is its owner's.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: it has none.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names that a module sets to a text at its top level."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        value = getattr(node, "value", None)
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield from ((one.id, value.value) for one in targets if isinstance(one, ast.Name))


def called(node: ast.expr) -> str:
    """The last part of a name such as `setup` or `setuptools.setup`; empty for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def text_of(node: ast.expr, known: Mapping[str, str]) -> str | None:
    """The text that is written there, or that of a constant; None where it is neither.

    Args:
        node: such as an argument of a call.
        known: constants by name.
    """
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    return known.get(node.id) if isinstance(node, ast.Name) else None


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


def names_in_cxx(text: str) -> set[str]:
    """Names that C or C++ source registers for PrivateUse1; what is commented out does not count."""
    if CXX_FUNCTION not in text:
        return set()
    code = _CXX_COMMENT.sub(lambda found: found[1] or " ", text)
    return {name for name in _CXX_CALL.findall(code) if NAME.fullmatch(name)}


def names_in_python(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Names that Python sources give PrivateUse1, by file.

    A name is read where it is written: a text, or a constant of that module or of one it is imported from.

    Args:
        sources: by path in the checkout, with slashes; one that is no Python counts as empty.
    """

    @cache
    def constants_of(path: str) -> Mapping[str, str]:
        tree = _parsed(sources[path])
        return {} if tree is None else dict(constants(tree))

    found = {}
    for path, text in sources.items():
        # Few files name it, and to read them all as Python takes long.
        if FUNCTION in text and (tree := _parsed(text)) is not None:
            found[path] = set(_names(path, tree, sources.keys(), constants_of))
    return {path: names for path, names in found.items() if names}


def _parsed(text: str) -> ast.Module | None:
    try:
        return parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _names(path: str, tree: ast.Module, paths: Collection[str], constants_of: Constants) -> Iterator[str]:
    known = dict(constants_of(path))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            there = _imported(path, node, paths, constants_of)
            known |= {one.asname or one.name: there[one.name] for one in node.names if one.name in there}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node.func) == FUNCTION:
            given = [*node.args[:1], *(one.value for one in node.keywords if one.arg == "backend_name")]
            name = text_of(given[0], known) if given else None
            if name is not None and NAME.fullmatch(name):
                yield name


def _imported(
    path: str, node: ast.ImportFrom, paths: Collection[str], constants_of: Constants
) -> Mapping[str, str]:
    """Constants of the module that a `from … import` names, if it is one of the checkout's."""
    parts = path.split("/")[: -node.level] if node.level else []
    below = "/".join([*parts, *(node.module or "").split(".")]).strip("/")
    wanted = (f"{below}.py", f"{below}/__init__.py")
    for one in wanted:
        if one in paths:
            return constants_of(one)
        # A checkout may keep its packages below `src`.
        if not node.level and f"src/{one}" in paths:
            return constants_of(f"src/{one}")
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class BackEnd:
    """A back end.

    Attributes:
        device: the name PrivateUse1 gets, such as `spyre`.
        package: what is imported, such as `torch_spyre`.
        project: what it is installed by; empty where the checkout is no Python project.
        notes: what was found where, and what was assumed; a sentence each.
    """

    device: str
    package: str
    project: str
    notes: tuple[str, ...] = ()


def detect(sources: Sources, *, device: str | None = None, package: str | None = None) -> BackEnd:
    """Say which back end a checkout is of.

    Args:
        sources: of the checkout.
        device: the device's name, where somebody says it.
        package: the package's, likewise.

    Raises:
        UsageError: what was said is no such name.
    """
    metadata = read_metadata(sources.metadata)
    notes = [f"{name} cannot be read, so it says nothing" for name in metadata.unread]
    if sources.partly:
        notes.append("there are more files than were looked at; name --device if it is wrong")
    chosen, why = _package(metadata, sources, _checked(package, "--package", "a Python package"))
    notes += why
    named, why = _device(sources, chosen, _checked(device, "--device", "a device, such as spyre"))
    return BackEnd(device=named, package=chosen, project=metadata.project, notes=(*notes, *why))


def _checked(name: str | None, flag: str, what: str) -> str | None:
    if name is not None and not NAME.fullmatch(name.lower() if flag == "--package" else name):
        raise UsageError(f"{flag} is {name!r}, which is no name of {what}", remedy="of a-z, 0-9 and _")
    return name


def _package(metadata: Metadata, sources: Sources, asked: str | None) -> tuple[str, list[str]]:
    if asked is not None:
        return asked, []
    if len(metadata.packages) > 1:
        listed = ", ".join(metadata.packages)
        said = f"{metadata.source} registers several packages with torch ({listed}); --package names another"
        return metadata.packages[0], [said]
    if metadata.packages:
        said = f"package {metadata.packages[0]}: {metadata.source} registers it with torch (torch.backends)"
        return metadata.packages[0], [said]
    # A package that is named as the project is, is the project's.
    name = metadata.project.replace("-", "_").replace(".", "_")
    tops = {
        top
        for path in sources.python
        if path.endswith("/__init__.py")
        and (top := path.removeprefix("src/").split("/")[0]).isascii()
        and top.isidentifier()
    }
    known = name if name in tops else None
    if known is None and len(tops) == 1:
        known = next(iter(tops))
    if known is not None:
        return known, [
            f"package {known} is assumed: nothing of the project registers with torch (torch.backends)"
        ]
    return SPYRE_PACKAGE, [
        f"package {SPYRE_PACKAGE} is assumed: no package was found; --package names another"
    ]


def _device(sources: Sources, package: str, asked: str | None) -> tuple[str, list[str]]:
    if asked is not None:
        return asked, []
    found = _by_file(sources)
    # What a package itself names goes before what a tool or an example beside it does.
    own = {path: names for path, names in found.items() if f"/{package}/" in f"/{path}"}
    names = sorted(set().union(*(own or found).values()))
    if len(names) == 1:
        where = min(own or found)
        return names[0], [f"device {names[0]}: {where} gives PrivateUse1 that name"]
    guess = next((package.removeprefix(one) for one in _PREFIXES if package.startswith(one)), package).lower()
    if names:
        chosen = guess if guess in names else names[0]
        listed = ", ".join(names)
        return chosen, [
            f"device {chosen} is assumed: PrivateUse1 gets several names ({listed}); --device says which"
        ]
    guess = guess if NAME.fullmatch(guess) else SPYRE
    return guess, [f"device {guess} is assumed: nothing here names PrivateUse1; --device names another"]


def _by_file(sources: Sources) -> Mapping[str, Iterable[str]]:
    python = names_in_python(sources.python)
    cxx = {path: names for path, text in sources.cxx.items() if (names := names_in_cxx(text))}
    return {**python, **cxx}
