"""A test as suites see it, and whether an entry means it: how exactly, and whether it generates it."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from test_selection.catalog import CatalogTest
from test_selection.patterns import Pattern
from test_selection.suite_model import Edit, Entry, Name, Named, Rule, Suite, SuiteFile, module_name, op_keys

# From here on a name's looseness is that of a pattern of methods.
PATTERN = 2


class Variant(NamedTuple):
    """One test.

    Attributes:
        test: as catalogs have it.
        raw: its class and method as pytest has them, by `raw_name`.
        is_module: whether what stands as its operator is a module.
    """

    test: CatalogTest
    raw: tuple[str, str] = ("", "")
    is_module: bool = False

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes of the test, which may have several (`dtypes=float16+int64`)."""
        return dtypes_of(self.test.dtype)

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


def raw_name(test: CatalogTest, exact_methods: Collection[str]) -> tuple[str, str]:
    """The class and method as pytest has them, where an entry may mean those; else two empty texts.

    Args:
        test: the test.
        exact_methods: methods that entries about the test's file name exactly.
    """
    parts = test.node.split("[", 1)[0].split("::")
    name = parts[-1]
    if name == test.template or len(parts) < 2:  # noqa: PLR2004  # a file and a test
        return "", ""
    cls = "::".join(parts[1:-1])
    return (cls, name) if cls == test.cls or name in exact_methods else ("", "")


def variant_of(test: CatalogTest, exact_methods: Collection[str]) -> Variant:
    """A catalog's test as suites see it; `exact_methods` as of `raw_name`."""
    return Variant(test=test, raw=raw_name(test, exact_methods), is_module=is_about_module(test))


def is_about_module(test: CatalogTest) -> bool:
    """Whether what stands as the test's operator is a module."""
    return test.op is not None and "op=" not in test.id and "module=" in test.id


@functools.cache  # a catalog has some dozen
def dtypes_of(dtype: str | None) -> tuple[str, ...]:
    """The names in a test's dtype, such as `float16+int64`."""
    return () if dtype is None else tuple(dtype.split("+"))


EXCLUDED = "suite-excluded"
UNSUPPORTED_OP = "suite-unsupported-op"
UNSUPPORTED_MODULE = "suite-unsupported-module"
UNSUPPORTED_DTYPE = "suite-unsupported-dtype"
NOT_SELECTED = "suite-selectors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A file entry about a test's file."""

    suite: Suite
    file: SuiteFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An entry that names a test."""

    place: Place
    entry: Entry
    loose: int


def rank(one: Candidate, variant: Variant) -> tuple[int, int, int]:
    """Smaller is more specific: misses of the includes, hits of them, how loosely the test is named."""
    entry, hits, misses = one.entry, 0, 0
    subject = edit_about(entry, variant).include
    if subject and variant.test.op is not None:
        hit = row_about(subject, variant) is not None
        hits, misses = hits + hit, misses + (not hit)
    if entry.dtypes.include and variant.dtypes:
        hit = any(part in entry.dtypes.include for part in variant.dtypes)
        hits, misses = hits + hit, misses + (not hit)
    return misses, -hits, one.loose


def why_not(place: Place, entry: Entry, variant: Variant) -> str:
    """The reason code an entry does not generate a variant for; empty where it does."""
    support = place.suite.support
    edit, listed = edit_about(entry, variant), supported_rows(place.suite, variant)
    supported = None
    if variant.test.op is not None:
        if row_about(edit.exclude, variant) is not None:
            return EXCLUDED
        supported = None if listed is None else row_about(listed, variant)
        if listed is not None and supported is None and row_about(edit.include, variant) is None:
            return UNSUPPORTED_MODULE if variant.is_module else UNSUPPORTED_OP
    own = supported.dtypes if supported is not None else {}
    for part in variant.dtypes:
        if part in entry.dtypes.exclude:
            return EXCLUDED
        if part in entry.dtypes.include:
            continue
        if (support.dtypes is not None and part not in support.dtypes) or (own and part not in own):
            return UNSUPPORTED_DTYPE
    return "" if _selected(place, entry, variant) else NOT_SELECTED


def _selected(place: Place, entry: Entry, variant: Variant) -> bool:
    if entry.include and not any(_holds(rule, place, variant, unknown=True) for rule in entry.include):
        return False
    return not any(_holds(rule, place, variant, unknown=False) for rule in entry.exclude)


def _holds(rule: Rule, place: Place, variant: Variant, *, unknown: bool) -> bool:
    """Whether a rule's conditions hold; what cannot be known neither includes nor excludes anything."""
    if rule.unknown and not unknown:
        return False
    has_op = variant.test.op is not None and not variant.is_module
    supported = place.suite.support.ops
    in_supported = has_op and (supported is None or row_about(supported, variant) is not None)
    return (
        rule.has_ops in {None, has_op}
        and rule.ops_in_supported in {None, in_supported}
        and (not rule.names or any(one.fullmatch(variant.test.template) for one in rule.names))
        and (not rule.modules or any(_in_module(one, variant.test.file) for one in rule.modules))
    )


def _in_module(pattern: Pattern, file: str) -> bool:
    return bool(pattern.fullmatch(file) or pattern.fullmatch(file.rpartition("/")[2]))


def supported_rows(suite: Suite, variant: Variant) -> Mapping[str, Named] | None:
    """The supported operators or modules, whichever the variant is about; None where nothing is listed."""
    return suite.support.modules if variant.is_module else suite.support.ops


def edit_about(entry: Entry, variant: Variant) -> Edit:
    """What an entry edits of operators or modules, whichever the variant is about."""
    return entry.modules if variant.is_module else entry.ops


def row_about(listed: Mapping[str, Named], variant: Variant) -> Named | None:
    """The row of a list that is about the variant's operator or module."""
    if not listed or variant.test.op is None:
        return None
    if variant.is_module:
        return listed.get(module_name(variant.test.op))
    return next((listed[key] for key in op_keys(variant.test.op) if key in listed), None)
