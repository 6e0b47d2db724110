"""Kernels of one value each."""

from __future__ import annotations

import math
from typing import Any

import torch

from .helpers import as_float, bounded, float_type, wide
from .registry import impl


@impl("aten::neg")
def neg(x: Any) -> Any:
    return x * -1


@impl("aten::abs")
def absolute(x: Any) -> Any:
    if x.is_complex():
        return (x.real * x.real + x.imag * x.imag).sqrt()
    return torch.where(x < 0, -x, x) if x.dtype.is_signed else x.clone()


@impl("aten::exp")
def exp(x: Any) -> Any:
    return torch.exp(as_float(x)).to(float_type(x))


@impl("aten::exp2")
def exp2(x: Any) -> Any:
    return torch.pow(2, as_float(x)).to(float_type(x))


@impl("aten::expm1")
def expm1(x: Any) -> Any:
    wide_x = as_float(x)
    small = torch.special.expm1(wide_x)
    return torch.where(wide_x.abs() < 1, small, torch.exp(wide_x) - 1).to(float_type(x))


@impl("aten::log")
def log(x: Any) -> Any:
    return torch.log(as_float(x)).to(float_type(x))


@impl("aten::log2")
def log2(x: Any) -> Any:
    return (torch.log(as_float(x)) / math.log(2)).to(float_type(x))


@impl("aten::log10")
def log10(x: Any) -> Any:
    return (torch.log(as_float(x)) / math.log(10)).to(float_type(x))


@impl("aten::log1p")
def log1p(x: Any) -> Any:
    wide_x = as_float(x)
    return torch.special.log1p(wide_x + 0).to(float_type(x))


@impl("aten::sin")
def sin(x: Any) -> Any:
    return torch.sin(as_float(x)).to(float_type(x))


@impl("aten::cos")
def cos(x: Any) -> Any:
    return torch.cos(as_float(x)).to(float_type(x))


@impl("aten::tan")
def tan(x: Any) -> Any:
    wide_x = as_float(x)
    return torch.tan(wide_x).to(float_type(x))


@impl("aten::asin")
def asin(x: Any) -> Any:
    return torch.asin(as_float(x)).to(float_type(x))


@impl("aten::acos")
def acos(x: Any) -> Any:
    wide_x = as_float(x)
    return torch.acos(wide_x).to(float_type(x))


@impl("aten::atan")
def atan(x: Any) -> Any:
    return torch.atan(as_float(x)).to(float_type(x))


@impl("aten::sinh")
def sinh(x: Any) -> Any:
    return torch.sinh(as_float(x)).to(float_type(x))


@impl("aten::cosh")
def cosh(x: Any) -> Any:
    return torch.cosh(as_float(x)).to(float_type(x))


@impl("aten::tanh")
def tanh(x: Any) -> Any:
    return torch.tanh(as_float(x)).to(float_type(x))


@impl("aten::asinh")
def asinh(x: Any) -> Any:
    return torch.asinh(as_float(x)).to(float_type(x))


@impl("aten::acosh")
def acosh(x: Any) -> Any:
    return torch.acosh(as_float(x)).to(float_type(x))


@impl("aten::atanh")
def atanh(x: Any) -> Any:
    return torch.atanh(as_float(x)).to(float_type(x))


@impl("aten::sqrt")
def sqrt(x: Any) -> Any:
    return torch.sqrt(as_float(x)).to(float_type(x))


@impl("aten::rsqrt")
def rsqrt(x: Any) -> Any:
    return (1 / torch.sqrt(as_float(x))).to(float_type(x))


@impl("aten::reciprocal")
def reciprocal(x: Any) -> Any:
    return (1 / as_float(x)).to(float_type(x))


@impl("aten::sigmoid")
def sigmoid(x: Any) -> Any:
    return (1 / (1 + torch.exp(-as_float(x)))).to(float_type(x))


@impl("aten::erf")
def erf(x: Any) -> Any:
    return torch.special.erf(as_float(x)).to(float_type(x))


@impl("aten::erfc")
def erfc(x: Any) -> Any:
    wide_x = as_float(x)
    return torch.where(wide_x < 1, 1 - torch.special.erf(wide_x), torch.special.erfc(wide_x)).to(
        float_type(x)
    )


@impl("aten::erfinv")
def erfinv(x: Any) -> Any:
    return torch.special.erfinv(as_float(x)).to(float_type(x))


@impl("aten::lgamma")
def lgamma(x: Any) -> Any:
    return torch.lgamma(as_float(x)).to(float_type(x))


@impl("aten::digamma")
def digamma(x: Any) -> Any:
    return torch.digamma(as_float(x)).to(float_type(x))


@impl("aten::floor")
def floor(x: Any) -> Any:
    if not x.is_floating_point():
        return x.clone()
    return (torch.floor(wide(x)) + 0).to(x.dtype)


@impl("aten::ceil")
def ceil(x: Any) -> Any:
    if not x.is_floating_point():
        return x.clone()
    return (-torch.floor(-wide(x))).to(x.dtype)


@impl("aten::trunc")
def trunc(x: Any) -> Any:
    if not x.is_floating_point():
        return x.clone()
    return torch.where(x < 0, torch.ceil(wide(x)), torch.floor(wide(x))).to(x.dtype)


@impl("aten::round")
def rounded(x: Any) -> Any:
    if not x.is_floating_point():
        return x.clone()
    return torch.round(wide(x) * 1).to(x.dtype)


@impl("aten::frac")
def frac(x: Any) -> Any:
    return (wide(x) - torch.trunc(wide(x))).to(x.dtype)


@impl("aten::sign")
def sign(x: Any) -> Any:
    if x.dtype is torch.bool:
        return x.clone()
    return ((x > 0).to(torch.int8) - (x < 0).to(torch.int8)).to(x.dtype)


@impl("aten::signbit")
def signbit(x: Any) -> Any:
    if x.is_floating_point():
        return torch.copysign(torch.ones_like(x), x) < 0
    return x < 0


@impl("aten::logical_not")
def logical_not(x: Any) -> Any:
    return x == 0


@impl("aten::bitwise_not")
def bitwise_not(x: Any) -> Any:
    if x.dtype is torch.bool:
        return x == 0
    return -1 - x if x.dtype.is_signed else 255 - x


@impl("aten::relu")
def relu(x: Any) -> Any:
    return torch.where(x > 0, x, torch.where(x != x, x, torch.zeros_like(x)))


@impl("aten::silu")
def silu(x: Any) -> Any:
    wide_x = wide(x)
    return (wide_x / (1 + torch.exp(-wide_x))).to(x.dtype)


@impl("aten::gelu")
def gelu(x: Any, *, approximate: str = "none") -> Any:
    wide_x = wide(x)
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (wide_x + 0.044715 * wide_x * wide_x * wide_x)
        return (0.5 * wide_x * (1 + torch.tanh(inner))).to(x.dtype)
    return (0.5 * wide_x * (1 + torch.special.erf(wide_x / math.sqrt(2)))).to(x.dtype)


@impl("aten::softplus")
def softplus(x: Any, beta: Any = 1, threshold: Any = 20) -> Any:
    wide_x = wide(x) * beta
    return (torch.where(wide_x > threshold, wide_x, torch.special.log1p(torch.exp(wide_x))) / beta).to(
        x.dtype
    )


@impl("aten::mish")
def mish(x: Any) -> Any:
    wide_x = wide(x)
    return (wide_x * torch.tanh(torch.special.log1p(torch.exp(wide_x)))).to(x.dtype)


@impl("aten::hardtanh")
def hardtanh(x: Any, low: Any = -1, high: Any = 1) -> Any:
    return bounded(x, low, high)


@impl("aten::hardsigmoid")
def hardsigmoid(x: Any) -> Any:
    return (bounded(wide(x) + 3, 0, 6) / 6).to(x.dtype)


@impl("aten::hardswish")
def hardswish(x: Any) -> Any:
    wide_x = wide(x)
    return (wide_x * bounded(wide_x + 3, 0, 6) / 6).to(x.dtype)


@impl("aten::leaky_relu")
def leaky_relu(x: Any, slope: Any = 0.01) -> Any:
    return torch.where(x > 0, wide(x), wide(x) * slope).to(x.dtype)


@impl("aten::elu")
def elu(x: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    wide_x = wide(x)
    below = alpha * torch.special.expm1(wide_x * input_scale)
    return (torch.where(wide_x > 0, wide_x, below) * scale).to(x.dtype)


@impl("aten::threshold")
def threshold(x: Any, bound: Any, value: Any) -> Any:
    return torch.where(x <= bound, torch.as_tensor(value, dtype=x.dtype), x)


@impl("aten::clamp")
def clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    kind = x.dtype
    for bound in (low, high):
        kind = torch.promote_types(kind, torch.result_type(x, bound)) if bound is not None else kind
    return bounded(x.to(kind), low, high)


@impl("aten::clamp_min")
def clamp_min(x: Any, low: Any) -> Any:
    return bounded(x.to(torch.result_type(x, low)), low, None)


@impl("aten::clamp_max")
def clamp_max(x: Any, high: Any) -> Any:
    return bounded(x.to(torch.result_type(x, high)), None, high)


@impl("aten::deg2rad")
def deg2rad(x: Any) -> Any:
    return (as_float(x) * math.pi / 180).to(float_type(x))


@impl("aten::rad2deg")
def rad2deg(x: Any) -> Any:
    return (as_float(x) * 180 / math.pi).to(float_type(x))


@impl("aten::isposinf")
def isposinf(x: Any) -> Any:
    return x == math.inf


@impl("aten::isneginf")
def isneginf(x: Any) -> Any:
    return x == -math.inf


@impl("aten::isnan")
def isnan(x: Any) -> Any:
    return x != x


@impl("aten::sinc")
def sinc(x: Any) -> Any:
    angle = as_float(x) * math.pi
    return torch.where(angle == 0, torch.ones_like(angle), torch.sin(angle) / angle).to(float_type(x))


@impl("aten::logit")
def logit(x: Any, eps: Any = None) -> Any:
    wide_x = as_float(x)
    if eps is not None:
        wide_x = bounded(wide_x, eps, 1 - eps)
    return torch.log(wide_x / (1 - wide_x)).to(float_type(x))


@impl("aten::nan_to_num")
def nan_to_num(x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    if not x.is_floating_point():
        return x.clone()
    most = torch.finfo(x.dtype).max
    x = torch.where(x != x, torch.full_like(x, nan or 0), x)
    x = torch.where(x == math.inf, torch.full_like(x, most if posinf is None else posinf), x)
    return torch.where(x == -math.inf, torch.full_like(x, -most if neginf is None else neginf), x)
