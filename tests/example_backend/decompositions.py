"""Operators that are made of others, in a table, as compilers have them."""

from __future__ import annotations

from typing import Any

import torch

from .helpers import wide
from .registry import KERNELS

aten = torch.ops.aten


def square_sum(x: Any, dim: Any, keepdim: bool) -> Any:
    return (wide(x) * wide(x)).sum(dim, keepdim)


def addmv(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = torch.mv(wide(a), wide(b)) * alpha
    return (product + wide(x) * beta if beta else product).to(x.dtype)


def addr(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    if x.dtype is torch.bool:
        return torch.addr(x, a, b, beta=beta, alpha=alpha)
    product = wide(a)[:, None] * wide(b)[None, :] * alpha
    return (product + wide(x) * beta if beta else product).to(x.dtype)


def glu(x: Any, dim: int = -1) -> Any:
    half = x.shape[dim] // 2
    left, right = x.narrow(dim, 0, half), x.narrow(dim, half, half)
    return (wide(left) / (1 + torch.exp(-wide(right)))).to(x.dtype)


def hardshrink(x: Any, bound: Any = 0.5) -> Any:
    return torch.where((x >= -bound) & (x <= bound), torch.zeros_like(x), x)


def softshrink(x: Any, bound: Any = 0.5) -> Any:
    above, below = x > bound, x < -bound
    return torch.where(above, x - bound, torch.where(below, x + bound, x * 0))


def log_sigmoid(x: Any) -> Any:
    wide_x = wide(x)
    low = torch.minimum(wide_x, torch.zeros_like(wide_x))
    rest = torch.exp(-wide_x.abs())
    return (low - torch.special.log1p(rest)).to(x.dtype), rest.to(x.dtype)


def renorm(x: Any, p: Any, dim: int, most: Any) -> Any:
    over = [one for one in range(x.dim()) if one != dim % x.dim()]
    size = torch.linalg.vector_norm(wide(x), p, over, True)
    factor = torch.where(size > most, most / (size + 1e-7), torch.ones_like(size))
    return (wide(x) * factor).to(x.dtype)


def pixel_shuffle(x: Any, factor: int) -> Any:
    *lead, channels, height, width = x.shape
    left = channels // (factor * factor)
    moved = x.reshape(*lead, left, factor, factor, height, width).movedim((-4, -3), (-3, -1))
    return moved.reshape(*lead, left, height * factor, width * factor).contiguous()


def cdist(a: Any, b: Any) -> Any:
    away = a.unsqueeze(-2) - b.unsqueeze(-3)
    return torch.sqrt(square_sum(away, -1, False))


TABLE = {
    aten.addmv: addmv,
    aten.addr: addr,
    aten.glu: glu,
    aten.hardshrink: hardshrink,
    aten.softshrink: softshrink,
    aten.log_sigmoid_forward: log_sigmoid,
    aten.renorm: renorm,
    aten.pixel_shuffle: pixel_shuffle,
    aten._euclidean_dist: cdist,
}
for packet, function in TABLE.items():
    KERNELS[f"aten::{packet.__name__}"] = function
