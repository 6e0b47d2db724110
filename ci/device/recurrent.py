"""Fused LSTM and GRU cells, which torch asks every accelerator for and has no kernel for on the CPU.

The formulas are those of torch.nn.LSTM's and torch.nn.GRU's documentation; the backward ones follow from
them. Gates are (batch, 4 * hidden) in the order input, forget, cell, output, or (batch, 3 * hidden) in the
order reset, update, new.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ci.device.fallback import Fallback

Tensor = torch.Tensor


def recurrent_kernels(fallback: Fallback) -> dict[str, Callable[..., Any]]:
    """The kernel of each fused cell, by its name within `aten`."""
    cells: dict[str, Callable[..., Any]] = {
        "_thnn_fused_lstm_cell": lstm_cell,
        "_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
        "_thnn_fused_gru_cell": gru_cell,
        "_thnn_fused_gru_cell_backward": gru_cell_backward,
    }
    return {name: _on_cpu(fallback, cell) for name, cell in cells.items()}


def lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cell: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """One step: the new hidden state, the new cell state, and the open gates for the way back."""
    gates = _biased(input_gates, input_bias) + _biased(hidden_gates, hidden_bias)
    enter, forget, new, out = gates.chunk(4, 1)
    enter, forget, new, out = enter.sigmoid(), forget.sigmoid(), new.tanh(), out.sigmoid()
    new_cell = forget * cell + enter * new
    return out * new_cell.tanh(), new_cell, torch.cat([enter, forget, new, out], 1)


def lstm_cell_backward(  # noqa: PLR0917  # torch's schema
    grad_hidden: Tensor | None,
    grad_cell: Tensor | None,
    cell: Tensor,
    new_cell: Tensor,
    workspace: Tensor,
    has_bias: bool,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of the gates, of the cell state before, and of the bias, which both biases share."""
    if grad_hidden is None and grad_cell is None:
        return None, None, None
    enter, forget, new, out = workspace.chunk(4, 1)
    hidden = torch.zeros_like(new_cell) if grad_hidden is None else grad_hidden
    bounded = new_cell.tanh()
    through = hidden * out * (1 - bounded * bounded)
    if grad_cell is not None:
        through = through + grad_cell
    gates = torch.cat(
        [
            through * new * enter * (1 - enter),
            through * cell * forget * (1 - forget),
            through * enter * (1 - new * new),
            hidden * bounded * out * (1 - out),
        ],
        1,
    )
    return gates, through * forget, gates.sum(0) if has_bias else None


def gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hidden: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step: the new hidden state, and what the way back needs."""
    input_reset, input_update, input_new = _biased(input_gates, input_bias).chunk(3, 1)
    hidden_reset, hidden_update, hidden_new = _biased(hidden_gates, hidden_bias).chunk(3, 1)
    reset = (input_reset + hidden_reset).sigmoid()
    update = (input_update + hidden_update).sigmoid()
    new = (input_new + reset * hidden_new).tanh()
    workspace = torch.cat([reset, update, new, hidden, hidden_new], 1)
    return new + update * (hidden - new), workspace


def gru_cell_backward(
    grad_hidden: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """The gradients of both gates, of the hidden state before, and of both biases."""
    reset, update, new, hidden, hidden_new = workspace.chunk(5, 1)
    grad_update = grad_hidden * (hidden - new) * update * (1 - update)
    grad_new = grad_hidden * (1 - update) * (1 - new * new)
    grad_reset = grad_new * hidden_new * reset * (1 - reset)
    grad_input = torch.cat([grad_reset, grad_update, grad_new], 1)
    grad_gates = torch.cat([grad_reset, grad_update, grad_new * reset], 1)
    biases = (grad_input.sum(0), grad_gates.sum(0)) if has_bias else (None, None)
    return grad_input, grad_gates, grad_hidden * update, *biases


def _biased(gates: Tensor, bias: Tensor | None) -> Tensor:
    return gates if bias is None else gates + bias


def _on_cpu(fallback: Fallback, cell: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return fallback.compute(cell, *args, **kwargs)

    return kernel
