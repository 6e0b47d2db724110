"""What is to be done with a module once it is imported, by whomever and whenever that is."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
import types
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from typing import Any


def when_imported(name: str, do: Callable[[Any], None]) -> None:
    """Call `do` with a module: at once where it is imported, else as soon as it has been.

    Args:
        name: the module, with its package.
        do: takes the module, whole; the import that it follows sees what it raises.
    """
    if (module := sys.modules.get(name)) is not None:
        do(module)
    else:
        sys.meta_path.insert(0, _Awaited(name, do))


class _Awaited(importlib.abc.MetaPathFinder):
    """Finds one module as the finders after it do, once, and sees it loaded."""

    def __init__(self, name: str, do: Callable[[Any], None]) -> None:
        self._name, self._do = name, do
        self._looking = False

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002  # the finder's own signature
        target: types.ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """The module's spec with a loader that tells of it; None for every other module."""
        if fullname != self._name or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            load, do = loader.exec_module, self._do

            def exec_module(module: types.ModuleType) -> None:
                load(module)
                # Not before: whoever looks for a module need not import it, and an import may fail once.
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                do(module)

            loader.exec_module = exec_module
        return spec
