"""The name a back end gives PrivateUse1, found in its sources without running any of them; pure."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping

FUNCTION = "rename_privateuse1_backend"
# A name torch takes for a device is one of its `device.name` setting, too (ci.config.run_model).
NAME = re.compile(r"[a-z][a-z0-9_]*")
# c10::register_privateuse1_backend("name") is the C++ of torch.utils.rename_privateuse1_backend("name").
_CXX_CALL = re.compile(r'\bregister_privateuse1_backend\s*\(\s*(?:std::string\s*\(\s*)?"([^"\\\n]*)"')
_CXX_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:[^"\\\n]|\\.)*")', re.DOTALL)


def names_in_cxx(text: str) -> set[str]:
    """Names that C or C++ source registers for PrivateUse1; what is commented out does not count."""
    code = _CXX_COMMENT.sub(lambda found: found[1] or " ", text)
    return {name for name in _CXX_CALL.findall(code) if NAME.fullmatch(name)}


def names_in_python(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Names that Python sources give PrivateUse1, by file.

    A name is read where it is written: a text, or a constant of that module or of one it is imported from.

    Args:
        sources: by path in the checkout, with slashes; one that is no Python counts as empty.
    """
    trees = {path: tree for path, text in sources.items() if (tree := _parsed(text)) is not None}
    constants = {path: dict(_constants(tree)) for path, tree in trees.items()}
    found = {path: set(_names(path, tree, constants)) for path, tree in trees.items()}
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


def _names(path: str, tree: ast.Module, constants: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    known = dict(constants[path])
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            there = _imported(path, node, constants)
            known |= {one.asname or one.name: there[one.name] for one in node.names if one.name in there}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node.func) == FUNCTION:
            given = [*node.args[:1], *(one.value for one in node.keywords if one.arg == "backend_name")]
            name = _text(given[0], known) if given else None
            if name is not None and NAME.fullmatch(name):
                yield name


def _imported(
    path: str, node: ast.ImportFrom, constants: Mapping[str, Mapping[str, str]]
) -> Mapping[str, str]:
    """Constants of the module that a `from … import` names, if it is one of the checkout's."""
    parts = path.split("/")[: -node.level] if node.level else []
    below = "/".join([*parts, *(node.module or "").split(".")]).strip("/")
    wanted = (f"{below}.py", f"{below}/__init__.py")
    for one in wanted:
        if one in constants:
            return constants[one]
        # A checkout may keep its packages below `src`.
        if not node.level and f"src/{one}" in constants:
            return constants[f"src/{one}"]
    return {}


def _called(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.expr, known: Mapping[str, str]) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    return known.get(node.id) if isinstance(node, ast.Name) else None
