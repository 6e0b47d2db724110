"""The name a back end gives PrivateUse1, found in its sources without running any of them; pure."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache

FUNCTION, CXX_FUNCTION = "rename_privateuse1_backend", "register_privateuse1_backend"
# Gives the constants of a module by its path.
Constants = Callable[[str], Mapping[str, str]]
# A name torch takes for a device is one of its `device.name` setting, too (ci.config.run_model).
NAME = re.compile(r"[a-z][a-z0-9_]*")
# c10::register_privateuse1_backend("name") is the C++ of torch.utils.rename_privateuse1_backend("name").
_CXX_CALL = re.compile(r'\bregister_privateuse1_backend\s*\(\s*(?:std::string\s*\(\s*)?"([^"\\\n]*)"')
# What is never closed goes on to the end: a search that gave up there would begin anew at every sign.
_CXX_COMMENT = re.compile(r'//[^\n]*|/\*.*?(?:\*/|\Z)|("(?:[^"\\\n]|\\.)*+"?)', re.DOTALL)


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
    def constants(path: str) -> Mapping[str, str]:
        tree = _parsed(sources[path])
        return {} if tree is None else dict(_constants(tree))

    found = {}
    for path, text in sources.items():
        # Few files name it, and to read them all as Python takes long.
        if FUNCTION in text and (tree := _parsed(text)) is not None:
            found[path] = set(_names(path, tree, sources.keys(), constants))
    return {path: names for path, names in found.items() if names}


def _parsed(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as an escape that is none: it is their file
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names that a module sets to a text at its top level."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        value = getattr(node, "value", None)
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield from ((one.id, value.value) for one in targets if isinstance(one, ast.Name))


def _names(path: str, tree: ast.Module, paths: Collection[str], constants: Constants) -> Iterator[str]:
    known = dict(constants(path))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            there = _imported(path, node, paths, constants)
            known |= {one.asname or one.name: there[one.name] for one in node.names if one.name in there}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node.func) == FUNCTION:
            given = [*node.args[:1], *(one.value for one in node.keywords if one.arg == "backend_name")]
            name = _text(given[0], known) if given else None
            if name is not None and NAME.fullmatch(name):
                yield name


def _imported(
    path: str, node: ast.ImportFrom, paths: Collection[str], constants: Constants
) -> Mapping[str, str]:
    """Constants of the module that a `from … import` names, if it is one of the checkout's."""
    parts = path.split("/")[: -node.level] if node.level else []
    below = "/".join([*parts, *(node.module or "").split(".")]).strip("/")
    wanted = (f"{below}.py", f"{below}/__init__.py")
    for one in wanted:
        if one in paths:
            return constants(one)
        # A checkout may keep its packages below `src`.
        if not node.level and f"src/{one}" in paths:
            return constants(f"src/{one}")
    return {}


def _called(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.expr, known: Mapping[str, str]) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    return known.get(node.id) if isinstance(node, ast.Name) else None
