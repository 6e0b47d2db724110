"""List every text of the code that a user can meet, as `file:line: text`: errors, remedies, help, pages.

usage: user_strings.py [FOLDER]. People read the list as someone who sees the product for the first time.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_WORDS = re.compile(r"[A-Za-z]{2,}")
_SQL = re.compile(r"\s*(SELECT|INSERT|CREATE|DELETE|UPDATE|WITH|PRAGMA|DROP|ALTER|BEGIN)\b")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def texts(tree: ast.Module, *, verbs: bool) -> Iterator[tuple[int, str]]:
    """The texts of a module with their lines: phrases of two words at least, no docstring, no SQL.

    Args:
        tree: the module.
        verbs: its functions are verbs, whose docstrings are help.
    """
    docstrings, parts = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node) is not None:
            docstrings.add(id(node.body[0].value))  # type: ignore[attr-defined]  # an expression
            if verbs and isinstance(node, ast.FunctionDef) and "typer" in ast.unparse(node.args):
                yield node.lineno, ast.get_docstring(node) or ""
        if isinstance(node, ast.JoinedStr):
            parts |= {id(one) for one in ast.walk(node) if one is not node}
    for node in ast.walk(tree):
        if id(node) in docstrings or id(node) in parts:
            continue
        text = _text(node)
        if (
            text is not None
            and len(_WORDS.findall(text)) > 1
            and " " in text.strip()
            and not _SQL.match(text)
        ):
            yield node.lineno, text  # type: ignore[attr-defined]  # a constant or an f-string


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(one.value) if isinstance(one, ast.Constant) else f"{{{ast.unparse(one.value)}}}"
            for one in node.values
            if isinstance(one, (ast.Constant, ast.FormattedValue))
        )
    return None


def main() -> int:
    """Print the list."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    for path in sorted([*root.glob("ci/**/*.py"), *root.glob("test_selection/**/*.py")]):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for line, text in texts(tree, verbs=path.name.startswith("cli")):
            sys.stdout.write(f"{path.relative_to(root)}:{line}: {' '.join(text.split())}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
