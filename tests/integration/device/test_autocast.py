from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.linspace(0.1, 0.9, torch.Size(shape).numel(), device="spyre").reshape(shape).to(dtype)


MATMULS: list[Any] = [
    lambda: values(3, 3) @ values(3, 3),
    lambda: torch.mm(values(3, 3), values(3, 3)),
    lambda: torch.bmm(values(1, 3, 3), values(1, 3, 3)),
    lambda: functional.linear(values(3, 3), values(3, 3), values(3)),
    lambda: functional.conv2d(values(1, 1, 4, 4), values(1, 1, 2, 2)),
    lambda: functional.scaled_dot_product_attention(values(1, 4, 4), values(1, 4, 4), values(1, 4, 4)),
]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("run", MATMULS)
def test_matrix_products_run_in_low_precision(run: Any, dtype: torch.dtype) -> None:
    assert run().dtype is torch.float32
    with torch.autocast("spyre", dtype=dtype):
        assert run().dtype is dtype


@pytest.mark.parametrize(
    "run",
    [
        lambda t: t.exp(),
        lambda t: t.sum(),
        lambda t: t.softmax(0),
        lambda t: functional.layer_norm(t, (3,)),
        lambda t: functional.mse_loss(t, t),
    ],
)
def test_what_needs_range_runs_in_float32(run: Any) -> None:
    low = values(3, dtype=torch.bfloat16)
    assert run(low).dtype is torch.bfloat16
    with torch.autocast("spyre", dtype=torch.bfloat16):
        assert run(low).dtype is torch.float32


def test_mixed_arguments_run_in_the_widest() -> None:
    with torch.autocast("spyre", dtype=torch.float16):
        assert torch.cat([values(3), values(3, dtype=torch.float16)]).dtype is torch.float32
        assert torch.dot(values(3), values(3, dtype=torch.float16)).dtype is torch.float32


def test_float64_is_left_alone() -> None:
    wide = values(3, 3, dtype=torch.float64)
    with torch.autocast("spyre", dtype=torch.float16):
        assert (wide @ wide).dtype is torch.float64


def test_a_loss_that_overflows_is_refused() -> None:
    with (
        torch.autocast("spyre", dtype=torch.float16),
        pytest.raises(RuntimeError, match="unsafe to autocast"),
    ):
        functional.binary_cross_entropy(values(3), values(3))


def test_gradients_come_back_in_the_parameters_dtype() -> None:
    layer = torch.nn.Linear(3, 3).to("spyre")
    with torch.autocast("spyre", dtype=torch.bfloat16):
        layer(values(2, 3)).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype is torch.float32


def test_a_dtype_that_autocast_does_not_know_is_refused() -> None:
    with pytest.warns(UserWarning, match="(?i)supported"), torch.autocast("spyre", dtype=torch.float64):
        assert (values(3, 3) @ values(3, 3)).dtype is torch.float32


def test_autocast_of_the_cpu_leaves_the_device_alone() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (values(3, 3) @ values(3, 3)).dtype is torch.float32
