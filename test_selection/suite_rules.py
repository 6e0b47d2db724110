"""The rules of suites for one variant and one entry: how exactly it means it, and whether it generates it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from test_selection.patterns import Pattern
from test_selection.suite_model import Entry, Named, Rule, Suite, SuiteFile
from test_selection.suite_names import module_name, op_keys
from test_selection.suite_variant import Variant, dtypes_of

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
    subject = (entry.modules if variant.is_module else entry.ops).include
    if subject and variant.op is not None:
        hit = row_about(subject, variant) is not None
        hits, misses = hits + hit, misses + (not hit)
    if entry.dtypes.include and variant.dtype is not None:
        hit = any(part in entry.dtypes.include for part in dtypes_of(variant.dtype))
        hits, misses = hits + hit, misses + (not hit)
    return misses, -hits, one.loose


def why_not(place: Place, entry: Entry, variant: Variant) -> str:
    """The reason code an entry does not generate a variant for; empty where it does."""
    support = place.suite.support
    edit = entry.modules if variant.is_module else entry.ops
    listed = support.modules if variant.is_module else support.ops
    supported = None
    if variant.op is not None:
        if row_about(edit.exclude, variant) is not None:
            return EXCLUDED
        supported = None if listed is None else row_about(listed, variant)
        if listed is not None and supported is None and row_about(edit.include, variant) is None:
            return UNSUPPORTED_MODULE if variant.is_module else UNSUPPORTED_OP
    if variant.dtype is not None:
        for part in dtypes_of(variant.dtype):
            if part in entry.dtypes.exclude:
                return EXCLUDED
            if part in entry.dtypes.include:
                continue
            own = supported.dtypes if supported is not None else {}
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
    has_op = variant.op is not None and not variant.is_module
    supported = place.suite.support.ops
    in_supported = has_op and (supported is None or row_about(supported, variant) is not None)
    return (
        rule.has_ops in {None, has_op}
        and rule.ops_in_supported in {None, in_supported}
        and (not rule.names or any(one.fullmatch(variant.template) for one in rule.names))
        and (not rule.modules or any(_in_module(one, variant.file) for one in rule.modules))
    )


def _in_module(pattern: Pattern, file: str) -> bool:
    return bool(pattern.fullmatch(file) or pattern.fullmatch(file.rpartition("/")[2]))


def row_about(listed: Mapping[str, Named], variant: Variant) -> Named | None:
    """The row of a list that is about the variant's operator or module."""
    if not listed or variant.op is None:
        return None
    if variant.is_module:
        return listed.get(module_name(variant.op))
    return next((listed[key] for key in op_keys(variant.op) if key in listed), None)
