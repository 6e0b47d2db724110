"""How suite files name things: tests, files, operators, dtypes and modules."""

from __future__ import annotations

import functools
import re

from test_selection.patterns import Pattern, compile_glob, compile_regex, has_wildcard
from test_selection.suite_model import Root

# What a path starts with, and the tree it stands for. The last two are what older files say.
ROOTS: dict[str, Root] = {
    "${TORCH_ROOT}/": "torch",
    "${TORCH_DEVICE_ROOT}/": "device",
    "${PYTORCH}/": "torch",
    "${TORCH_SPYRE}/": "device",
}
# Catalogs name files relative to these folders of the two trees.
_TESTS = {"torch": "test/", "device": "tests/"}

# A Python name holds none of these, so a name that does is a regular expression; `*`, `?` and `[` alone
# make a glob.
_REGEX_SIGNS = re.compile(r"[.\\()|^$+{}]")
# A path holds dots, and `${`: only what no path holds makes a regular expression of it.
_REGEX_PATH = re.compile(r"\.[*+]|[\\()|^$+{}]")

# PyTorch makes some tests in a function while a class is defined; suites name that function.
_GENERATORS = {"generate_tensor_like_override_tests": "test_(?:torch|Tensor|_).*"}
_GENERATOR = re.compile(r"generate_(\w+)_tests")


def module_name(written: str) -> str:
    """A module by the name catalogs have: `torch.nn.Linear` is `nn.Linear`."""
    return written.removeprefix("torch.")


def op_key(op: str) -> str:
    """What two spellings of an operator have in common: `nn.functional.relu` and `nn_functional_relu`."""
    return op.replace(".", "_")


@functools.cache  # a catalog has some hundred operators and a million tests
def op_keys(op: str) -> tuple[str, ...]:
    """The keys of an operator's name and of the names it is a variant of, the longest first.

    A suite's `addmm` means `addmm.decomposed` too: torch-spyre names operators without their variant.
    """
    parts = op.split(".")
    return tuple(op_key(".".join(parts[:end])) for end in range(len(parts), 0, -1))


def compile_name(text: str) -> Pattern:
    """What a test's name means, of the whole text: itself, a glob, a regular expression, a generator's tests.

    Raises:
        re.error: it cannot be compiled.
    """
    cls, sign, method = text.rpartition("::")
    if found := _GENERATOR.fullmatch(method):
        made = _GENERATORS.get(method, f"test_.*_{found[1]}")
        return compile_regex(rf"{_part(cls)}{sign}(?:{made}|{method})")
    if not _REGEX_SIGNS.search(text):
        return compile_glob(text)
    try:
        return compile_regex(text)
    except re.error:
        # `*TestX*::test_.*`: a glob of classes beside a regular expression of methods.
        if not sign:
            raise
        return compile_regex(f"{_part(cls)}::{_part(method)}")


def loose(text: str) -> int:
    """How loosely a name names its tests: 0 exactly, 1 by a pattern of classes, 2 by one of methods."""
    cls, _, method = text.rpartition("::")
    if _is_pattern(method):
        return 2
    return 1 if _is_pattern(cls) else 0


def split_path(path: str) -> tuple[Root | None, str]:
    """The tree a path starts in, and the rest of it."""
    for sign, root in ROOTS.items():
        if path.startswith(sign):
            return root, path.removeprefix(sign)
    return None, path


def compile_path(root: Root | None, rest: str) -> tuple[Pattern, bool]:
    """The pattern of a path below its tree's root, over files relative to its tests; and whether it is exact.

    Raises:
        re.error: it cannot be compiled.
    """
    folder = _TESTS.get(root or "", "")
    if folder:
        rest = rest.removeprefix(folder)
    if _REGEX_PATH.search(rest):
        return compile_regex(rest), False
    return compile_glob(rest), not has_wildcard(rest)


def _part(text: str) -> str:
    if not text:
        return ""
    if _REGEX_SIGNS.search(text):
        return f"(?:{compile_regex(text).pattern})"
    return compile_glob(text).pattern.removeprefix(r"\A").removesuffix(r"\Z")


def _is_pattern(text: str) -> bool:
    generated = _GENERATOR.fullmatch(text) is not None
    return generated or has_wildcard(text) or _REGEX_SIGNS.search(text) is not None
