"""The operators that the device was asked for, by overload and dtype, since somebody last looked."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any


class Calls:
    """What was called, each once."""

    def __init__(self) -> None:
        self._seen: set[tuple[Any, Any]] = set()

    def note(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Note a call: the operator, and the dtype of the first tensor, else of the one that is made."""
        first = args[0] if args else None
        if type(first) is list and first:
            first = first[0]
        # Every call comes here, and asking whether it is a tensor takes longer than the rest.
        self._seen.add((op, getattr(first, "dtype", None) or kwargs.get("dtype")))

    def noted(self, op: Any, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """The kernel of an operator, whose calls are noted."""

        def noting(*args: Any, **kwargs: Any) -> Any:
            self.note(op, args, kwargs)
            return kernel(*args, **kwargs)

        return noting

    def take(self) -> list[str]:
        """What was called since this was last asked: `aten::add.Tensor float32`, in no order."""
        seen, self._seen = self._seen, set()
        return [_told(*one) for one in seen]


@functools.cache
def _told(op: Any, dtype: Any) -> str:
    return f"{op if isinstance(op, str) else op.name()} {str(dtype).removeprefix('torch.')}"
