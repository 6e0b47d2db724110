"""The name a back end gives PrivateUse1, found in its sources without running any of them; pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache

from ci.init.syntax import called, constants, parsed, text_of

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
