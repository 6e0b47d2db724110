"""Autocast of the device: which operators run in low precision, which in float32, which in the widest.

The lists are those PyTorch documents for autocast on accelerators
(https://docs.pytorch.org/docs/stable/amp.html, "Autocast Op Reference").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ci.device import private
from ci.device.environment import DEVICE_TYPE
from ci.device.memory import is_device_tensor

LOW_PRECISION = (
    *("_convolution", "conv1d", "conv2d", "conv3d", "conv_tbc", "convolution"),
    *("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input"),
    *("addmm", "addmv", "addr", "matmul", "einsum", "mm", "mv", "linalg_vecdot", "linear", "addbmm"),
    *("baddbmm", "bmm", "chain_matmul", "linalg_multi_dot", "prelu", "scaled_dot_product_attention"),
    *("_thnn_fused_lstm_cell", "_thnn_fused_gru_cell", "lstm_cell", "gru_cell"),
    *("rnn_tanh_cell", "rnn_relu_cell"),
)
FLOAT_32 = (
    *("acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal"),
    *("rsqrt", "sinh", "tan", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "softplus"),
    *("layer_norm", "native_layer_norm", "group_norm", "frobenius_norm.dim", "nuclear_norm"),
    *("nuclear_norm.dim", "cosine_similarity", "poisson_nll_loss", "cosine_embedding_loss", "nll_loss"),
    *("nll_loss2d", "hinge_embedding_loss", "kl_div", "l1_loss", "smooth_l1_loss", "huber_loss"),
    *("mse_loss", "margin_ranking_loss", "multilabel_margin_loss", "soft_margin_loss"),
    *("triplet_margin_loss", "multi_margin_loss", "binary_cross_entropy_with_logits", "dist", "pdist"),
    *("cdist", "renorm", "logsumexp", "grid_sampler"),
    *("prod", "prod.dim_int", "softmax.int", "log_softmax.int", "cumprod", "cumsum", "sum"),
    *("sum.dim_IntList", "norm.Scalar", "norm.ScalarOpt_dim", "linalg_vector_norm", "linalg_matrix_norm"),
)
WIDEST = (
    *("addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "index_put", "index_put_"),
    *("tensordot", "scatter_add", "cat", "stack"),
)
BANNED = ("binary_cross_entropy",)

_NARROW_TO_WIDE = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def autocast_kernels() -> dict[str, Callable[..., Any]]:
    """The kernel of each operator overload on the autocast key, by its name within `aten`."""
    kernels: dict[str, Callable[..., Any]] = {}
    for names, choose in ((LOW_PRECISION, _low), (FLOAT_32, _float32), (WIDEST, _widest)):
        kernels |= {name: _casting(name, choose) for name in names}
    return kernels | {name: _refusing(name) for name in BANNED}


def _casting(name: str, choose: Callable[[list[torch.Tensor]], torch.dtype | None]) -> Callable[..., Any]:
    op = private.overload(name)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with private.without_autocast():
            wanted = choose(_castable((args, tuple(kwargs.values()))))
            if wanted is None:
                return op(*args, **kwargs)
            return op(*_cast(args, wanted), **{key: _cast(value, wanted) for key, value in kwargs.items()})

    return kernel


def _refusing(name: str) -> Callable[..., Any]:
    def kernel(*_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError(
            f"torch.nn.functional.{name} and torch.nn.BCELoss are unsafe to autocast.\n"
            f"Use torch.nn.functional.{name}_with_logits or torch.nn.BCEWithLogitsLoss instead."
        )

    return kernel


def _low(_tensors: list[torch.Tensor]) -> torch.dtype | None:
    return torch.get_autocast_dtype(DEVICE_TYPE)


def _float32(_tensors: list[torch.Tensor]) -> torch.dtype | None:
    return torch.float32


def _widest(tensors: list[torch.Tensor]) -> torch.dtype | None:
    return max((tensor.dtype for tensor in tensors), key=_NARROW_TO_WIDE.index, default=None)


def _castable(value: Any) -> list[torch.Tensor]:
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _castable(item)]
    return [value] if is_device_tensor(value) and value.dtype in _NARROW_TO_WIDE else []


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(item, dtype) for item in value)
    # float64 was asked for by the user, and is left alone as on other accelerators.
    if is_device_tensor(value) and value.dtype in _NARROW_TO_WIDE[:3]:
        return value.to(dtype)
    return value
