"""Kernels of two values and more."""

from __future__ import annotations

from typing import Any

import torch

from .helpers import as_float, result_type, wide
from .registry import impl


@impl("aten::add.Tensor")
def add(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    kind = result_type(a, b)
    if kind is torch.bool:
        return torch.logical_or(a, b) if alpha else a.clone()
    return (wide(a.to(kind)) + wide(b.to(kind)) * alpha).to(kind)


@impl("aten::sub.Tensor")
def sub(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    kind = result_type(a, b)
    return (wide(a.to(kind)) - wide(b.to(kind)) * alpha).to(kind)


@impl("aten::rsub.Tensor")
def rsub(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    kind = result_type(a, b)
    return (wide(b.to(kind)) - wide(a.to(kind)) * alpha).to(kind)


@impl("aten::mul.Tensor")
def mul(a: Any, b: Any) -> Any:
    kind = result_type(a, b)
    if kind is torch.bool:
        return torch.logical_and(a, b)
    return (wide(a.to(kind)) * wide(b.to(kind))).to(kind)


@impl("aten::div.Tensor")
def div(a: Any, b: Any) -> Any:
    kind = result_type(a, b)
    kind = kind if kind.is_floating_point or kind.is_complex else torch.get_default_dtype()
    return (wide(a.to(kind)) / wide(b.to(kind))).to(kind)


@impl("aten::maximum")
def maximum(a: Any, b: Any) -> Any:
    kind = result_type(a, b)
    a, b = torch.broadcast_tensors(a.to(kind), b.to(kind))
    return torch.where((a > b) | (a != a), a, b)


@impl("aten::minimum")
def minimum(a: Any, b: Any) -> Any:
    kind = result_type(a, b)
    a, b = torch.broadcast_tensors(a.to(kind), b.to(kind))
    return torch.where((a < b) | (a != a), a, b)


@impl("aten::fmax")
def fmax(a: Any, b: Any) -> Any:
    kind = result_type(a, b)
    a, b = torch.broadcast_tensors(a.to(kind), b.to(kind))
    return torch.where((a > b) | (b != b), a, b)


@impl("aten::fmin")
def fmin(a: Any, b: Any) -> Any:
    kind = result_type(a, b)
    a, b = torch.broadcast_tensors(a.to(kind), b.to(kind))
    return torch.where((a < b) | (b != b), a, b)


@impl("aten::eq.Tensor")
def eq(a: Any, b: Any) -> Any:
    return torch.sub(a, b) == 0 if a.dtype.is_floating_point and b.dtype == a.dtype else a == b


@impl("aten::ne.Tensor")
def ne(a: Any, b: Any) -> Any:
    return a != b


@impl("aten::lt.Tensor")
def lt(a: Any, b: Any) -> Any:
    return a < b


@impl("aten::le.Tensor")
def le(a: Any, b: Any) -> Any:
    return a <= b


@impl("aten::gt.Tensor")
def gt(a: Any, b: Any) -> Any:
    return a > b


@impl("aten::ge.Tensor")
def ge(a: Any, b: Any) -> Any:
    return a >= b


@impl("aten::logical_and")
def logical_and(a: Any, b: Any) -> Any:
    return (a != 0) & (b != 0)


@impl("aten::logical_or")
def logical_or(a: Any, b: Any) -> Any:
    return (a != 0) | (b != 0)


@impl("aten::logical_xor")
def logical_xor(a: Any, b: Any) -> Any:
    return (a != 0) ^ (b != 0)


@impl("aten::bitwise_and.Tensor")
def bitwise_and(a: Any, b: Any) -> Any:
    return a & b


@impl("aten::bitwise_or.Tensor")
def bitwise_or(a: Any, b: Any) -> Any:
    return a | b


@impl("aten::bitwise_xor.Tensor")
def bitwise_xor(a: Any, b: Any) -> Any:
    return a ^ b


@impl("aten::remainder.Tensor")
def remainder(a: Any, b: Any) -> Any:
    kind = result_type(a, b)
    return torch.fmod(torch.fmod(a.to(kind), b.to(kind)) + b.to(kind), b.to(kind))


@impl("aten::fmod.Tensor")
def fmod(a: Any, b: Any) -> Any:
    kind = result_type(a, b)
    if not kind.is_floating_point:
        return torch.fmod(a, b)
    wide_a, wide_b = wide(a.to(kind)), wide(b.to(kind))
    return torch.fmod(wide_a * 1, wide_b).to(kind)


@impl("aten::atan2")
def atan2(a: Any, b: Any) -> Any:
    return torch.atan2(as_float(a), as_float(b)).to(_float_result(a, b))


@impl("aten::hypot")
def hypot(a: Any, b: Any) -> Any:
    return torch.sqrt(wide(a) * wide(a) + wide(b) * wide(b)).to(result_type(a, b))


@impl("aten::copysign.Tensor")
def copysign(a: Any, b: Any) -> Any:
    size = torch.abs(as_float(a))
    return torch.where(torch.signbit(b), -size, size).to(_float_result(a, b))


@impl("aten::logaddexp")
def logaddexp(a: Any, b: Any) -> Any:
    kind = result_type(a, b)
    a, b = wide(a.to(kind)), wide(b.to(kind))
    high, low = torch.maximum(a, b), torch.minimum(a, b)
    return torch.where(
        high == low, high + torch.log(torch.tensor(2.0)), high + torch.special.log1p(torch.exp(low - high))
    ).to(kind)


@impl("aten::xlogy.Tensor")
def xlogy(a: Any, b: Any) -> Any:
    kind = _float_result(a, b)
    a, b = torch.broadcast_tensors(as_float(a), as_float(b))
    return torch.where((a == 0) & (b == b), torch.zeros_like(a), a * torch.log(b)).to(kind)


@impl("aten::heaviside")
def heaviside(a: Any, b: Any) -> Any:
    a, b = torch.broadcast_tensors(a, b)
    return torch.where(a == 0, b, (a > 0).to(b.dtype))


@impl("aten::gcd")
def gcd(a: Any, b: Any) -> Any:
    a, b = torch.broadcast_tensors(a.abs(), b.abs())
    while bool((b != 0).any()):
        rest = torch.where(b == 0, b, a % torch.where(b == 0, torch.ones_like(b), b))
        a, b = torch.where(b == 0, a, b), rest
    return a.contiguous()


@impl("aten::pow.Tensor_Tensor")
def power(a: Any, b: Any) -> Any:
    kind = result_type(a, b)
    return torch.pow(a.to(kind), b.to(kind) * 1)


@impl("aten::pow.Tensor_Scalar")
def power_of_number(a: Any, b: Any) -> Any:
    kind = torch.result_type(a, b)
    if b == 2:
        return (wide(a.to(kind)) * wide(a.to(kind))).to(kind)
    return torch.pow(wide(a.to(kind)), b).to(kind)


@impl("aten::lerp.Tensor")
def lerp(a: Any, b: Any, weight: Any) -> Any:
    return (wide(a) + wide(weight) * (wide(b) - wide(a))).to(a.dtype)


@impl("aten::lerp.Scalar")
def lerp_number(a: Any, b: Any, weight: Any) -> Any:
    return (wide(a) + weight * (wide(b) - wide(a))).to(a.dtype)


@impl("aten::addcmul")
def addcmul(x: Any, a: Any, b: Any, *, value: Any = 1) -> Any:
    kind = result_type(x, a, b)
    return (wide(x) + value * wide(a) * wide(b)).to(kind)


@impl("aten::addcdiv")
def addcdiv(x: Any, a: Any, b: Any, *, value: Any = 1) -> Any:
    kind = result_type(x, a, b)
    return (wide(x) + value * wide(a) / wide(b)).to(kind)


@impl("aten::where.self")
def where(condition: Any, a: Any, b: Any) -> Any:
    kind = result_type(a, b)
    chosen = condition != 0
    shape = torch.broadcast_shapes(chosen.shape, a.shape, b.shape)
    found = b.to(kind).expand(shape).clone()
    taken = chosen.expand(shape)
    found[taken] = a.to(kind).expand(shape)[taken]
    return found


@impl("aten::masked_fill.Scalar")
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    found = x.expand(shape).clone()
    found[mask.expand(shape)] = value
    return found


@impl("aten::mse_loss")
def mse_loss(x: Any, target: Any, reduction: int = 1) -> Any:
    loss = (wide(x) - wide(target)) * (wide(x) - wide(target))
    return _reduced(loss, reduction).to(x.dtype)


@impl("aten::smooth_l1_loss")
def smooth_l1_loss(x: Any, target: Any, reduction: int = 1, beta: float = 1.0) -> Any:
    away = (wide(x) - wide(target)).abs()
    if beta == 0:
        return _reduced(away, reduction).to(x.dtype)
    return _reduced(torch.where(away < beta, 0.5 * away * away / beta, away - 0.5 * beta), reduction).to(
        x.dtype
    )


@impl("aten::huber_loss")
def huber_loss(x: Any, target: Any, reduction: int = 1, delta: float = 1.0) -> Any:
    away = (wide(x) - wide(target)).abs()
    return _reduced(
        torch.where(away <= delta, 0.5 * away * away, delta * (away - 0.5 * delta)), reduction
    ).to(x.dtype)


def _reduced(loss: Any, reduction: int) -> Any:
    if reduction == 1:
        return loss.mean()
    return loss.sum() if reduction == 2 else loss


def _float_result(a: Any, b: Any) -> Any:
    kind = result_type(a, b)
    return kind if kind.is_floating_point else torch.get_default_dtype()
