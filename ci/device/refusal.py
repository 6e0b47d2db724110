"""What the emulated device refuses, to act like a card that lacks it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch

from ci.core.errors import SettingsError
from ci.device import private


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """The operators and dtypes a device does without.

    Attributes:
        ops: operator names without overload, such as `aten::add`.
        dtypes: the dtypes no tensor of the device may have.
        device: the device's name, for messages.
    """

    ops: frozenset[str] = frozenset()
    dtypes: frozenset[torch.dtype] = field(default_factory=frozenset)
    device: str = "spyre"

    def check_dtype(self, dtype: torch.dtype) -> None:
        """Refuse a tensor of `dtype`.

        Raises:
            NotImplementedError: the device does without this dtype.
        """
        if dtype in self.dtypes:
            raise NotImplementedError(f"The dtype {dtype} is not supported on the {self.device!r} device.")


def make_refusal(ops: Iterable[str], dtypes: Iterable[str]) -> Refusal:
    """Read names as settings hold them: `add` or `aten::add`, `float64`.

    An operator's name stands for all its overloads, `out=` ones too, and for its in-place form.

    Raises:
        SettingsError: torch has no such operator or dtype.
    """
    known_ops = private.operator_names()
    known_dtypes = {name for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype)}
    names: set[str] = set()
    for op in ops:
        full = op if "::" in op else f"aten::{op}"
        _require(full, known_ops, key="device.refuse_ops")
        names.update({full, f"{full}_"} & known_ops)
    for dtype in dtypes:
        _require(dtype, known_dtypes, key="device.refuse_dtypes")
    return Refusal(ops=frozenset(names), dtypes=frozenset(getattr(torch, dtype) for dtype in dtypes))


def _require(name: str, known: set[str], *, key: str) -> None:
    if name in known:
        return
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "see torch's documentation for the names"
    raise SettingsError(f"torch {torch.__version__} has no {name!r}", where=key, remedy=hint)
