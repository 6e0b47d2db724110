"""What kernels share: the types in which they compute, and shapes."""

from __future__ import annotations

from typing import Any

import torch

HALF = (torch.float16, torch.bfloat16)


def result_type(*values: Any) -> torch.dtype:
    """The dtype of a binary operator's result."""
    found = values[0]
    kind = torch.result_type(values[0], values[1]) if len(values) > 1 else found.dtype
    for value in values[2:]:
        kind = torch.promote_types(kind, value.dtype)
    return kind


def as_float(x: torch.Tensor) -> torch.Tensor:
    """The values in a floating type in which a unary function is computed."""
    if x.is_floating_point() or x.is_complex():
        return x.float() if x.dtype in HALF else x
    return x.to(torch.get_default_dtype())


def float_type(x: torch.Tensor) -> torch.dtype:
    """The dtype of the result of a function that is floating for integers."""
    if x.is_floating_point() or x.is_complex():
        return x.dtype
    return torch.get_default_dtype()


def wide(x: torch.Tensor) -> torch.Tensor:
    """Half precision in single precision, anything else as it is."""
    return x.float() if x.dtype in HALF else x


def accumulated(x: torch.Tensor, dtype: Any) -> torch.dtype:
    """The dtype of a sum: 64 bits for integers."""
    if dtype is not None:
        return dtype
    return x.dtype if x.is_floating_point() or x.is_complex() else torch.int64


def axes(dim: Any, count: int) -> list[int]:
    """The axes of a reduction: all where none is named."""
    if dim is None or dim == []:
        return list(range(count))
    named = [dim] if isinstance(dim, int) else list(dim)
    return [one % max(count, 1) for one in named]


def extent(x: torch.Tensor, dim: list[int]) -> int:
    """How many values a reduction takes together."""
    total = 1
    for one in dim:
        total = total * (x.shape[one] if x.dim() else 1)
    return total


def bounded(x: torch.Tensor, low: Any, high: Any) -> torch.Tensor:
    """Values within bounds; a bound that is None does not hold."""
    if low is not None:
        x = torch.where(x < low, torch.as_tensor(low, dtype=x.dtype), x)
    if high is not None:
        x = torch.where(x > high, torch.as_tensor(high, dtype=x.dtype), x)
    return x
