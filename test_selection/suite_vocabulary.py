"""Operators and modules that suite files name and nobody has."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from test_selection.catalog import Catalog
from test_selection.suite_finding import Finding, finding
from test_selection.suite_model import Edit, Named, Suite
from test_selection.suite_names import module_name, op_key, op_keys
from test_selection.suite_variant import is_about_module

Subject = Literal["operator", "module"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What there is: names as catalogs have them; None where it could not be found out.

    Attributes:
        ops: operators.
        modules: modules.
        whole: whether that is all of torch, so that a name that is not among them is a mistake.
    """

    ops: Collection[str] | None = None
    modules: Collection[str] | None = None
    whole: bool = False


def known_of(catalog: Catalog) -> Known:
    """The operators and modules that the tests of a catalog are about."""
    modules = {test.op for test in catalog.tests if test.op and is_about_module(test)}
    return Known(ops={test.op for test in catalog.tests if test.op} - modules, modules=modules)


def unknown_names(suite: Suite, known: Known, files: Collection[str] | None) -> Iterator[Finding]:
    """Operators and modules nobody has; of files the catalog lacks it cannot tell."""
    support = suite.support
    ops = _Vocabulary(subject="operator", names=known.ops, whole=known.whole, key_of=op_key)
    modules = _Vocabulary(subject="module", names=known.modules, whole=known.whole, key_of=module_name)
    yield from ops.check(suite, "supported_ops", (support.ops or {}).values())
    yield from modules.check(suite, "supported_modules", (support.modules or {}).values())
    told = (one for one in suite.files if files is None or any(map(one.pattern.fullmatch, files)))
    for entry in (entry for file in told for entry in file.entries):
        for key, vocabulary, edit in (("ops", ops, entry.ops), ("modules", modules, entry.modules)):
            rows = _rows_without_class(edit)
            yield from vocabulary.check(suite, f"edits.{key}", rows)


def _rows_without_class(edit: Edit) -> Iterable[Named]:
    return (row for row in (*edit.include.values(), *edit.exclude.values()) if not row.located)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Vocabulary:
    """The operators or modules there are."""

    subject: Subject
    names: Collection[str] | None
    whole: bool
    key_of: Callable[[str], str]

    def check(self, suite: Suite, key: str, rows: Iterable[Named]) -> Iterator[Finding]:
        if not self.names:
            return
        keys = {part: name for name in self.names for part in (self.key_of(name), *op_keys(name))}
        for row in rows:
            if row.name in keys or self.key_of(row.written.removeprefix("torch.")) in keys:
                continue
            close = difflib.get_close_matches(row.name, keys, n=1, cutoff=0.8)
            hint = f"did you mean {keys[close[0]]!r}?" if close else "leave it out"
            # The device's own test base brings operators of its own, so a strange one may be meant.
            where = "torch" if self.whole else "the catalog"
            remedy = hint if close else f"{hint}, or collect the tests that have it"
            yield finding(
                "error" if close else "warning", suite, row.line, key, row.written,
                f"is no {self.subject} of {where}", remedy,
            )  # fmt: skip
