"""A test as suites see it: its template, its instantiated name, its operator or module, its dtypes."""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass

from test_selection.catalog import CatalogTest
from test_selection.suite_model import Name

# From here on a name's looseness is that of a pattern of methods.
PATTERN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One test.

    Attributes:
        file: the test file.
        cls: the class without its device suffix.
        template: the method before instantiation.
        raw_cls: the class as pytest has it; empty where the template's own name is the whole of it.
        raw_name: the method as pytest has it; empty as above.
        op: the operator or module.
        is_module: whether it is a module.
        dtype: the dtype, or several joined by `+`.
    """

    file: str
    cls: str
    template: str
    raw_cls: str
    raw_name: str
    op: str | None
    is_module: bool
    dtype: str | None

    def is_named(self, name: Name) -> bool:
        """Whether a name of an entry means this test.

        Instantiated names (`test_from_pretrained_float32`) are met by an exact name only where a device
        suffix is in them: torch-spyre matches its patterns with templates.
        """
        matches = name.pattern.fullmatch
        if matches(f"{self.cls}::{self.template}" if name.qualified else self.template):
            return True
        if not self.raw_name or (name.loose and self.raw_cls != self.cls):
            return False
        names = {f"{self.cls}::{self.raw_name}", f"{self.raw_cls}::{self.raw_name}"}
        return any(map(matches, names)) if name.qualified else matches(self.raw_name) is not None


def variant_of(test: CatalogTest, raw: tuple[str, str], *, is_module: bool) -> Variant:
    """A catalog's test as suites see it; `raw` is its `raw_name`."""
    return Variant(
        file=test.file,
        cls=test.cls,
        template=test.template,
        raw_cls=raw[0],
        raw_name=raw[1],
        op=test.op,
        is_module=is_module,
        dtype=test.dtype,
    )


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


def is_about_module(test: CatalogTest) -> bool:
    """Whether what stands as the test's operator is a module."""
    return test.op is not None and "op=" not in test.id and "module=" in test.id


@functools.cache  # a catalog has some dozen
def dtypes_of(dtype: str | None) -> tuple[str, ...]:
    """The dtypes of a test, which may have several (`dtypes=float16+int64`)."""
    return () if dtype is None else tuple(dtype.split("+"))
