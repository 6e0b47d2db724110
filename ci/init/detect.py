"""Find the package and device of a back end's checkout, from sources that are read and never run."""

from __future__ import annotations

import ast
import os
import re
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ci.core.errors import UsageError
from ci.runner.compatibility import GROUP, table_of
from ci.runner.environment_info import PACKAGE
from ci.runner.inventory import EMULATED_DEVICE
from test_selection.files import read_bounded

# A back end has some hundreds of files; a tree of PyTorch beside it would have tens of thousands.
MOST_FILES, MOST_BYTES = 4000, 1 << 20
_NOT_ITS_OWN = {
    "build", "dist", "node_modules", "site-packages", "third_party", "runs", "venv", "__pycache__",
    "tests", "test",
}  # fmt: skip
_PYTHON, _CXX = {".py"}, {".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp"}
# `torch.backends` with an entry point `name = package:function`, of setup.cfg and setup.py.
_ENTRY_POINT = re.compile(r"torch\.backends[\"']?\s*[:=]\s*[\[(]?\s*[\"']?[\w.-]+\s*=\s*([A-Za-z_]\w*)")
_PROJECT_NAME = re.compile(r"^\s*name\s*=\s*[\"']?([A-Za-z0-9][\w.-]*)[\"']?,?\s*$", re.MULTILINE)
_RENAMES, _REGISTERS = "rename_privateuse1_backend", "register_privateuse1_backend"
# What is never closed goes on to the end: a search that gave up there would start anew at every sign.
_CXX_COMMENT = re.compile(r'//[^\n]*|/\*.*?(?:\*/|\Z)|("(?:[^"\\\n]|\\.)*+"?)', re.DOTALL)
_CXX_CALL = re.compile(rf'\b{_REGISTERS}\s*\(\s*(?:std::string\s*\(\s*)?"([^"\\\n]*)"')
_DEVICE, _PACKAGE_NAME = re.compile(r"[a-z][a-z0-9_]*"), re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackEnd:
    """A back end.

    Attributes:
        device: the name PrivateUse1 gets, such as `spyre`.
        package: what is imported, such as `torch_spyre`.
        project: what it is installed by; empty where no file names it.
        notes: where each was found, or that it is assumed; a sentence each.
    """

    device: str
    package: str
    project: str = ""
    notes: tuple[str, ...] = ()


def detect(folder: Path, *, device: str | None = None, package: str | None = None) -> BackEnd:
    """Say which back end a checkout holds.

    Args:
        folder: of the checkout.
        device: the device's name, where it is given.
        package: the package's, likewise.

    Raises:
        UsageError: a given name cannot be one.
    """
    if device is not None and not _DEVICE.fullmatch(device):
        raise UsageError(f"--device is {device!r}", remedy="use a-z, 0-9 and _, such as spyre")
    if package is not None and not _PACKAGE_NAME.fullmatch(package):
        raise UsageError(f"--package is {package!r}", remedy="name a Python package, such as torch_spyre")
    texts = dict(_sources(folder))
    project, registered, notes = _project(folder)
    if package is None:
        package, note = _package(texts, project, registered)
        notes.append(note)
    if device is None:
        device, note = _device(texts, package)
        notes.append(note)
    if len(texts) == MOST_FILES:
        notes.append(f"only the first {MOST_FILES:,} source files were read")
    return BackEnd(device=device, package=package, project=project, notes=tuple(notes))


def _sources(folder: Path) -> Iterator[tuple[str, str]]:
    """Python, C and C++ sources by path, without tests, links, environments and what was built."""
    count = 0
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(
            one
            for one in folders
            if one not in _NOT_ITS_OWN and one[0] != "." and not Path(here, one, "pyvenv.cfg").exists()
        )
        for name in sorted(names):
            path = Path(here, name)
            if path.suffix not in _PYTHON | _CXX or path.is_symlink() or (text := _text(path)) is None:
                continue
            if count == MOST_FILES:
                return
            count += 1
            yield path.relative_to(folder).as_posix(), text


def _text(path: Path) -> str | None:
    try:
        return read_bounded(path, MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return None


def _project(folder: Path) -> tuple[str, list[tuple[str, str]], list[str]]:
    """The project's name, the packages it registers with torch, each with the file, and notes."""
    name, registered, notes = "", [], []
    if (text := _text(folder / "pyproject.toml")) is not None:
        try:
            content = tomllib.loads(text)
        except ValueError:
            notes.append("pyproject.toml is not valid TOML and was not used")
        else:
            table = table_of(content, "project")
            name = str(table.get("name", ""))
            points = table_of(table, "entry-points", GROUP).values()
            found = (re.match(r"\s*([A-Za-z_]\w*)", str(one)) for one in points)
            registered = [(one[1], "pyproject.toml") for one in found if one]
    for file in ("setup.cfg", "setup.py"):
        text = _text(folder / file) or ""
        if not registered:
            registered = [(one, file) for one in _ENTRY_POINT.findall(text)]
        if not name and (found_name := _PROJECT_NAME.search(text)):
            name = found_name[1]
    return (name if re.fullmatch(r"[A-Za-z0-9][\w.-]*", name) else ""), registered, notes


def _package(texts: dict[str, str], project: str, registered: list[tuple[str, str]]) -> tuple[str, str]:
    names = list(dict.fromkeys(name for name, _ in registered))
    if names:
        others = f" (also {', '.join(names[1:])}: --package names another)" if names[1:] else ""
        return names[0], f"package {names[0]}: {registered[0][1]} registers it with torch ({GROUP}){others}"
    tops = {
        top
        for path in texts
        if path.endswith("/__init__.py")
        and _PACKAGE_NAME.fullmatch(top := path.removeprefix("src/").partition("/")[0])
    }
    named = re.sub(r"[-.]", "_", project)
    package = named if named in tops else tops.pop() if len(tops) == 1 else PACKAGE
    return package, f"package {package} is assumed: the project registers none with torch ({GROUP})"


def _device(texts: dict[str, str], package: str) -> tuple[str, str]:
    found = {path: names for path, text in texts.items() if (names := _names(path, text, texts))}
    # What the package itself does goes before what a tool or an example beside it does.
    own = {path: found[path] for path in found if f"/{package}/" in f"/{path}"} or found
    given = sorted(set().union(*own.values()))
    if len(given) == 1:
        return given[0], f"device {given[0]}: {min(own)} names PrivateUse1"
    guess = re.sub(r"^(py)?torch_", "", package).lower()
    if given:
        device = guess if guess in given else given[0]
        why = f"the sources name PrivateUse1 {', '.join(given)}"
    else:
        device = guess if _DEVICE.fullmatch(guess) else EMULATED_DEVICE
        why = "no source names PrivateUse1"
    return device, f"device {device} is assumed: {why}; --device names another"


def _names(path: str, text: str, texts: dict[str, str]) -> set[str]:
    """Names that a source gives PrivateUse1: a text, or a constant that some source of the checkout sets."""
    if _RENAMES in text and path.endswith(".py"):
        names = {_constant(one, texts) if name else one for one, name in _renamed(text)}
    elif _REGISTERS in text and not path.endswith(".py"):
        names = set(_CXX_CALL.findall(_CXX_COMMENT.sub(lambda one: one[1] or " ", text)))
    else:
        return set()
    return {one for one in names if _DEVICE.fullmatch(one)}


def _renamed(text: str) -> Iterator[tuple[str, bool]]:
    """The first argument of each call that renames PrivateUse1: a text, or a name (then True)."""
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if (
            not isinstance(node, ast.Call)
            or getattr(node.func, "attr", getattr(node.func, "id", "")) != _RENAMES
        ):
            continue
        for one in [*node.args, *(given.value for given in node.keywords)][:1]:
            if isinstance(one, ast.Constant):
                yield str(one.value), False
            elif name := getattr(one, "attr", getattr(one, "id", "")):
                yield name, True


def _constant(name: str, texts: dict[str, str]) -> str:
    line = re.compile(rf"^{name}\b[^=\n]*=\s*[\"'](\w+)[\"']", re.MULTILINE)
    found = (line.search(text) for path, text in texts.items() if path.endswith(".py") and name in text)
    return next((one[1] for one in found if one), "")
