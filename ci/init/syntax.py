"""Python sources as they are written: parsed, and what is said in them, without running any; pure."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping


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
