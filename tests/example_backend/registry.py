"""The registration of kernels with torch, for the device of this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

KERNELS: dict[str, Any] = {}


def impl(*names: str) -> Any:
    """Register a function as the kernel of operator overloads, such as `aten::add.Tensor`."""

    def keep(function: Any) -> Any:
        KERNELS.update(dict.fromkeys(names, function))
        return function

    return keep


def install(fallback: Any, library: Any) -> None:
    """Give torch every kernel; each computes on the CPU's memory."""
    for name, function in KERNELS.items():
        places = [number for number, one in enumerate(_schema(name).arguments) if str(one.type) == "Tensor"]

        def kernel(*args: Any, _function: Any = function, _places: Any = places, **kwargs: Any) -> Any:
            return fallback.compute(_function, *_without_numbers(args, _places), **kwargs)

        library.impl(name.removeprefix("aten::"), kernel, "PrivateUse1", allow_override=True)


def _schema(name: str) -> Any:
    packet, _, overload = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")._schema


def _without_numbers(args: Sequence[Any], places: Sequence[int]) -> list[Any]:
    """The arguments, with a tensor for each number that stands in a tensor's place."""
    given = list(args)
    first = next((given[place] for place in places if isinstance(given[place], torch.Tensor)), None)
    for place in places:
        if first is not None and isinstance(given[place], bool | int | float | complex):
            given[place] = torch.tensor(
                given[place], dtype=torch.result_type(first, given[place]), device="cpu"
            )
    return given
