"""Kernels that take values together, products of matrices, and those that move values."""

from __future__ import annotations

import math
from typing import Any

import torch

from .helpers import accumulated, axes, extent, wide
from .registry import impl


@impl("aten::sum.dim_IntList")
def sum_over(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    kind = accumulated(x, dtype)
    return wide(x.to(kind)).sum(axes(dim, x.dim()), keepdim).to(kind) if x.dim() else x.to(kind)


@impl("aten::mean.dim")
def mean_over(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    kind = dtype or x.dtype
    over = axes(dim, x.dim())
    return (wide(x.to(kind)).sum(over, keepdim) / extent(x, over)).to(kind) if x.dim() else x.to(kind)


@impl("aten::mean")
def mean_of_all(x: Any, *, dtype: Any = None) -> Any:
    kind = dtype or x.dtype
    return (wide(x.to(kind)).sum() / x.numel()).to(kind)


@impl("aten::prod")
def prod_of_all(x: Any, *, dtype: Any = None) -> Any:
    kind = accumulated(x, dtype)
    found = torch.ones((), dtype=kind)
    for one in x.to(kind).flatten():
        found = found * one
    return found


@impl("aten::amax")
def amax(x: Any, dim: Any = (), keepdim: bool = False) -> Any:
    return (
        x.sort(descending=True).values.amax(axes(list(dim), x.dim()), keepdim)
        if x.dim() == 1
        else torch.amax(x, dim, keepdim)
    )


@impl("aten::amin")
def amin(x: Any, dim: Any = (), keepdim: bool = False) -> Any:
    return torch.amin(x, axes(list(dim), x.dim()), keepdim) if x.dim() else x.clone()


@impl("aten::argmax")
def argmax(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return torch.argmax(x, dim, keepdim) + 0


@impl("aten::argmin")
def argmin(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return torch.argmin(x, dim, keepdim) * 1


@impl("aten::any")
def any_of_all(x: Any) -> Any:
    found = (x != 0).sum() > 0
    return found.to(torch.uint8) if x.dtype is torch.uint8 else found


@impl("aten::all")
def all_of_all(x: Any) -> Any:
    found = (x == 0).sum() == 0
    return found.to(torch.uint8) if x.dtype is torch.uint8 else found


@impl("aten::cumsum")
def cumsum(x: Any, dim: int, *, dtype: Any = None) -> Any:
    kind = accumulated(x, dtype)
    return torch.cumsum(wide(x.to(kind)) * 1, dim).to(kind)


@impl("aten::cumprod")
def cumprod(x: Any, dim: int, *, dtype: Any = None) -> Any:
    kind = accumulated(x, dtype)
    return torch.cumprod(wide(x.to(kind)) + 0, dim).to(kind)


@impl("aten::logsumexp")
def logsumexp(x: Any, dim: Any, keepdim: bool = False) -> Any:
    kind = x.dtype if x.is_floating_point() or x.is_complex() else torch.get_default_dtype()
    wide_x = wide(x.to(kind))
    return torch.logsumexp(wide_x + 0, dim, keepdim).to(kind)


@impl("aten::var.correction")
def var(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    over = axes(dim, x.dim())
    away = wide(x) - wide(x).mean(over, True)
    squares = away * away if not x.is_complex() else (away * away.conj()).real
    count = extent(x, over) - (1 if correction is None else correction)
    return (squares.sum(over, keepdim) / max(count, 0)).to(squares.dtype if x.is_complex() else x.dtype)


@impl("aten::std.correction")
def std(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return torch.sqrt(wide(var(x, dim, correction=correction, keepdim=keepdim))).to(
        x.dtype.to_real() if x.is_complex() else x.dtype
    )


@impl("aten::_softmax")
def softmax(x: Any, dim: int, half_to_float: bool) -> Any:
    wide_x = wide(x)
    if not x.dim():
        return torch.ones_like(x)
    powers = torch.exp(wide_x - wide_x.amax(dim, True)) if x.numel() else wide_x
    return (powers / powers.sum(dim, True)).to(x.dtype)


@impl("aten::_log_softmax")
def log_softmax(x: Any, dim: int, half_to_float: bool) -> Any:
    wide_x = wide(x)
    if not x.dim():
        return torch.zeros_like(x)
    return (wide_x - torch.logsumexp(wide_x, dim, True)).to(torch.float32 if half_to_float else x.dtype)


@impl("aten::mm")
def mm(a: Any, b: Any) -> Any:
    return torch.mm(wide(a), wide(b)).to(a.dtype)


@impl("aten::bmm")
def bmm(a: Any, b: Any) -> Any:
    return torch.bmm(wide(a), wide(b)).to(a.dtype)


@impl("aten::mv")
def mv(a: Any, b: Any) -> Any:
    return (wide(a) * wide(b)).sum(1).to(a.dtype)


@impl("aten::dot")
def dot(a: Any, b: Any) -> Any:
    return (wide(a) * wide(b)).sum().to(a.dtype)


@impl("aten::vdot")
def vdot(a: Any, b: Any) -> Any:
    return (wide(a).conj() * wide(b)).sum().to(a.dtype)


@impl("aten::addmm")
def addmm(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = torch.mm(wide(a), wide(b)) * alpha
    return (product + wide(x) * beta if beta else product).to(x.dtype)


@impl("aten::baddbmm")
def baddbmm(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = torch.bmm(wide(a), wide(b)) * alpha
    return (product + wide(x) * beta if beta else product).to(x.dtype)


@impl("aten::flip")
def flip(x: Any, dims: Any) -> Any:
    for dim in dims:
        order = torch.arange(x.shape[dim] if x.dim() else 0)
        x = x.index_select(dim, x.shape[dim] - 1 - order) if x.dim() else x
    return x.clone()


@impl("aten::roll")
def roll(x: Any, shifts: Any, dims: Any = ()) -> Any:
    if not dims:
        return torch.roll(x.flatten(), shifts[0]).view(x.shape) if x.numel() else x.clone()
    for shift, dim in zip(shifts, dims, strict=True):
        if x.numel():
            order = (torch.arange(x.shape[dim]) - shift) % x.shape[dim]
            x = x.index_select(dim, order)
    return x.clone()


@impl("aten::tril")
def tril(x: Any, diagonal: int = 0) -> Any:
    rows, columns = torch.arange(x.shape[-2])[:, None], torch.arange(x.shape[-1])[None, :]
    return torch.where(columns - rows <= diagonal, x, torch.zeros_like(x))


@impl("aten::triu")
def triu(x: Any, diagonal: int = 0) -> Any:
    rows, columns = torch.arange(x.shape[-2])[:, None], torch.arange(x.shape[-1])[None, :]
    return torch.where(columns - rows >= diagonal, x, torch.zeros_like(x))


@impl("aten::linspace")
def linspace(start: Any, end: Any, steps: int, **options: Any) -> Any:
    options["device"] = "cpu"
    if steps < 2:
        return torch.full(
            (steps,), start, **{**options, "dtype": options.get("dtype") or torch.get_default_dtype()}
        )
    return torch.linspace(start, end, steps, **options) + 0


@impl("aten::index_select")
def index_select(x: Any, dim: int, index: Any) -> Any:
    if not x.dim():
        return x.clone()
    return (
        torch.stack([x.select(dim, int(one)) for one in index.reshape(-1)], dim)
        if index.numel()
        else torch.index_select(x, dim, index)
    )


@impl("aten::gather")
def gather(x: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    return torch.gather(x, dim, index + 0)


@impl("aten::native_layer_norm")
def native_layer_norm(x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    over = list(range(x.dim() - len(shape), x.dim()))
    wide_x = wide(x)
    mean = wide_x.mean(over, True)
    spread = ((wide_x - mean) * (wide_x - mean)).mean(over, True)
    scale = 1 / torch.sqrt(spread + eps)
    found = (wide_x - mean) * scale
    found = found if weight is None else found * wide(weight)
    found = found if bias is None else found + wide(bias)
    return found.to(x.dtype), mean.to(x.dtype), scale.to(x.dtype)


@impl("aten::trace")
def trace(x: Any) -> Any:
    return x.diagonal().sum() * 1


@impl("aten::linalg_cross")
def cross(a: Any, b: Any, *, dim: int = -1) -> Any:
    a, b = torch.broadcast_tensors(a, b)
    return (a.roll(-1, dim) * b.roll(-2, dim) - a.roll(-2, dim) * b.roll(-1, dim)).contiguous()


@impl("aten::norm.ScalarOpt_dim")
def norm(x: Any, p: Any, dim: Any, keepdim: bool = False) -> Any:
    power = 2.0 if p is None else float(p)
    if power in {math.inf, -math.inf, 0.0}:
        return torch.linalg.vector_norm(x, power, dim, keepdim)
    return wide(x).abs().pow(power).sum(dim, keepdim).pow(1 / power).to(x.dtype)
