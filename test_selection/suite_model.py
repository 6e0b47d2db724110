"""What a suite file of torch-spyre says, as values, and how it names tests, files and operators."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from test_selection.catalog import CatalogTest
from test_selection.patterns import Pattern, compile_glob, compile_regex, has_wildcard
from test_selection.selection import Precision

MANDATORY = "mandatory_success"
MODES = (MANDATORY, "xfail", "xfail_strict", "skip")
# torch-spyre's text says skip, its reader xfail; the reader is what its files were written against.
DEFAULT_UNLISTED = "xfail"

Root = Literal["torch", "device"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A name of an entry: what it says, what it matches, how exactly, and where it stands.

    Attributes:
        text: as written.
        pattern: matches `Class::method`, or the method alone where the name lacks its class.
        qualified: whether the name has its class.
        loose: 0 an exact name, 1 a pattern of classes with an exact method, 2 a pattern of methods.
        line: from 1.
    """

    text: str
    pattern: Pattern
    qualified: bool
    loose: int
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """An operator, dtype or module of a list.

    Attributes:
        name: what catalogs are asked for: an operator by its key, a dtype by its full name (`half` is
            float16), a module without `torch.`.
        written: as it stands in the file.
        line: from 1.
        description: why, in the suite's words.
        precision: tolerances its variants are compared with.
        force_xfail: whether what has to pass may fail for it.
        dtypes: of an operator or module: the dtypes it has, empty where it does not say.
        located: of a module: whether the row says where it is imported from.
    """

    name: str
    written: str
    line: int
    description: str = ""
    precision: Precision | None = None
    force_xfail: bool = False
    dtypes: Mapping[str, Named] = field(default_factory=dict)
    located: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What an entry includes beside the support lists, and what it excludes whatever they say."""

    include: Mapping[str, Named] = field(default_factory=dict)
    exclude: Mapping[str, Named] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of a selector: every condition that is set has to hold.

    Attributes:
        has_ops: whether the test has an operator.
        ops_in_supported: whether its operator is in the supported ones.
        names: patterns of the method; one has to match.
        modules: patterns of the file; one has to match.
        unknown: conditions no catalog can answer, such as `markers`.
        line: from 1.
    """

    has_ops: bool | None = None
    ops_in_supported: bool | None = None
    names: tuple[Pattern, ...] = ()
    modules: tuple[Pattern, ...] = ()
    unknown: tuple[str, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Some tests of a file and what is expected of them.

    Attributes:
        names: which tests.
        line: of the entry, from 1.
        mode: `mandatory_success`, `xfail`, `xfail_strict` or `skip`.
        description: why, in the suite's words.
        ops: edits by operator.
        dtypes: edits by dtype.
        modules: edits by module.
        cpu_move: assertions whose tensors are compared on the CPU.
        no_grad: whether the test runs without gradients.
        include: selector rules of which one has to hold, where there are any.
        exclude: selector rules of which none may hold.
        tags: as written; nothing here interprets them.
    """

    names: tuple[Name, ...]
    line: int
    mode: str = MANDATORY
    description: str = ""
    ops: Edit = field(default_factory=Edit)
    dtypes: Edit = field(default_factory=Edit)
    modules: Edit = field(default_factory=Edit)
    cpu_move: tuple[str, ...] = ()
    no_grad: bool = False
    include: tuple[Rule, ...] = ()
    exclude: tuple[Rule, ...] = ()
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteFile:
    """A file, or a pattern of files, of a suite.

    Attributes:
        path: as written.
        root: which tree the path starts in; None where it does not say.
        pattern: of files relative to the tests' root.
        exact: whether it can match one file only.
        line: from 1.
        unlisted_test_mode: what is expected of its tests that no entry names.
        entries: in order.
    """

    path: str
    root: Root | None
    pattern: Pattern
    exact: bool
    line: int
    unlisted_test_mode: str = DEFAULT_UNLISTED
    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """What a suite says its device can do; None is a list that is not there and filters nothing."""

    dtypes: Mapping[str, Named] | None = None
    ops: Mapping[str, Named] | None = None
    modules: Mapping[str, Named] | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A suite file as read.

    Attributes:
        path: where it was read from.
        files: in order.
        support: its `global`.
    """

    path: Path
    files: tuple[SuiteFile, ...]
    support: Support = field(default_factory=Support)

    def at(self, line: int) -> str:
        """`file:line`."""
        return f"{self.path}:{line}"


class Variant(NamedTuple):
    """One test.

    Attributes:
        test: as catalogs have it.
        raw: its class and method as pytest has them, where an entry may mean those; else two empty texts.
        is_module: whether what stands as its operator is a module.
    """

    test: CatalogTest
    raw: tuple[str, str] = ("", "")
    is_module: bool = False

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes of the test, which may have several (`dtypes=float16+int64`)."""
        return () if self.test.dtype is None else tuple(self.test.dtype.split("+"))

    def is_named(self, name: Name) -> bool:
        """Whether a name of an entry means this test.

        Instantiated names (`test_from_pretrained_float32`) are met by an exact name only where a device
        suffix is in them: torch-spyre matches its patterns with templates.
        """
        matches, test, (raw_cls, raw) = name.pattern.fullmatch, self.test, self.raw
        if matches(f"{test.cls}::{test.template}" if name.qualified else test.template):
            return True
        if not raw or (name.loose and raw_cls != test.cls):
            return False
        names = {f"{test.cls}::{raw}", f"{raw_cls}::{raw}"}
        return any(map(matches, names)) if name.qualified else matches(raw) is not None


def variant_of(test: CatalogTest, exact_methods: Collection[str]) -> Variant:
    """A catalog's test as suites see it, raw where an entry may mean that.

    Args:
        test: the test.
        exact_methods: methods that entries about the test's file name exactly.
    """
    cls, _, raw = test.node.partition("[")[0].partition("::")[2].rpartition("::")
    if raw in {"", test.template} or not (cls == test.cls or raw in exact_methods):
        cls = raw = ""
    return Variant(test=test, raw=(cls, raw), is_module=is_about_module(test))


def is_about_module(test: CatalogTest) -> bool:
    """Whether what stands as the test's operator is a module."""
    return test.op is not None and "op=" not in test.id and "module=" in test.id


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


# From here on a name's looseness is that of a pattern of methods.
PATTERN = 2


def loose(text: str) -> int:
    """How loosely a name names its tests: 0 exactly, 1 by a pattern of classes, 2 by one of methods."""
    cls, _, method = text.rpartition("::")
    if _is_pattern(method):
        return PATTERN
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
