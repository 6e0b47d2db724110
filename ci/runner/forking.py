"""Which test files cannot live in a forked process: those that fork or spawn processes themselves. Pure.

A forked child has the parent's locks, threads' leftovers and main module. What starts processes of its own
from there (Python's and torch's multiprocessing, `os.fork`, PyTorch's multi-process test cases) may hang in
ways it never does in a process of its own, so such files are run in fresh ones.
"""

from __future__ import annotations

import ast
import warnings

_MODULES = (
    "multiprocessing",
    "torch.multiprocessing",
    "torch.testing._internal.common_distributed",
    "torch.testing._internal.distributed",
    "torch.distributed.elastic",
    "concurrent.futures.process",
)
_NAMES = frozenset({"fork", "forkpty", "ProcessPoolExecutor", "MultiProcessTestCase"})


def starts_processes(source: str) -> bool:
    """Whether a test file imports or calls what forks or spawns processes; no Python does not."""
    if not any(word in source for word in ("multiprocessing", "distributed", *_NAMES)):
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(_does(node) for node in ast.walk(tree))


def _does(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(_is_one(alias.name) for alias in names)
        case ast.ImportFrom(module=str(module), names=names):
            return _is_one(module) or any(
                _is_one(f"{module}.{alias.name}") or alias.name in _NAMES for alias in names
            )
        case ast.Attribute(attr=name):
            return name in _NAMES
        case _:
            return False


def _is_one(module: str) -> bool:
    return any(module == one or module.startswith(f"{one}.") for one in _MODULES)
