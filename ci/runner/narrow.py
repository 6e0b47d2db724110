"""Leaving tests that nobody asked for out of a file's collection.

A file of PyTorch's may hold 25,000 generated tests of which a stage runs one in twenty. pytest makes an item
and an instance of its class for each, and that is most of what setting such a file up costs. What carries
`__test__ = False` it passes by.
"""

from __future__ import annotations

import types
import unittest
import weakref
from collections.abc import Collection

from ci.runner.instantiation import parts_of
from test_selection.ids import canonical_id, without_clash

# What was wanted of the classes seen so far, and what was passed by: one function may be tests of several.
_WANTED: weakref.WeakSet[types.FunctionType] = weakref.WeakSet()
_PASSED_BY: weakref.WeakSet[types.FunctionType] = weakref.WeakSet()


def wanted_names(ids: Collection[str]) -> frozenset[str]:
    """The canonical ids without the numbers of clashes: where one of several alike is wanted, all stay."""
    return frozenset(map(without_clash, ids))


def leave_out(cls: object, file: str, wanted: Collection[str]) -> int:
    """Have pytest pass by what a test class defines itself and nobody wants; how many that are.

    A class that others inherit from is left alone, for what is not wanted of it may be wanted of them. A
    function that is several tests, here or in another class, stays where one of them is wanted.

    Args:
        cls: what a module holds; anything but a class of unittest's is left alone.
        file: the test file, as canonical ids name it.
        wanted: what `wanted_names` gave.
    """
    if not isinstance(cls, type) or not issubclass(cls, unittest.TestCase) or cls.__subclasses__():
        return 0
    unwanted = []
    for name, function in vars(cls).items():
        if not name.startswith("test") or not isinstance(function, types.FunctionType):
            continue
        parts = parts_of(function, cls, name, {})
        if canonical_id(file, parts.cls, parts.template, parts.params) in wanted:
            _WANTED.add(function)
            if function in _PASSED_BY:  # pytest looks into a module's classes once it has seen all of them
                _PASSED_BY.remove(function)
                del function.__test__  # type: ignore[attr-defined]  # pytest's own convention
        else:
            unwanted.append(function)
    passed_by = {function for function in unwanted if function not in _WANTED}
    for function in passed_by:
        function.__test__ = False  # type: ignore[attr-defined]  # pytest's own convention
        _PASSED_BY.add(function)
    return len(passed_by)
