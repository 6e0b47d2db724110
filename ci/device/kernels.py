"""The operators whose kernel on the device is more than the CPU's on the same memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ci.device import private
from ci.device.environment import DEVICE_TYPE
from ci.device.fallback import Fallback
from ci.device.memory import point
from ci.device.recurrent import recurrent_kernels

Kernel = Callable[..., Any]
aten = torch.ops.aten


def own_kernels(fallback: Fallback) -> dict[str, Kernel]:
    """The kernel of each operator overload, by its name within `aten`."""
    kernels: dict[str, Kernel] = {
        "_copy_from": _copying(fallback),
        "_copy_from_and_resize": _copying_and_resizing(fallback),
        "resize_": _resizing(fallback),
        "set_": _set_to_nothing,
        "set_.source_Storage": _set_to_storage,
        "set_.source_Tensor": _set_to_tensor,
        "set_.source_Storage_storage_offset": _set_to_part_of_storage,
        "_efficientzerotensor": _zeros,
        "record_stream": lambda _tensor, _stream: None,
    }
    kernels["view.dtype"] = _viewing_as(fallback)
    kernels.update(_convolutions(fallback))
    return kernels | recurrent_kernels(fallback)


def _copying(fallback: Fallback) -> Kernel:
    def copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        del non_blocking  # everything is done when the call returns
        # The one crossing between devices: either side may be the CPU's.
        fallback.compute(_copy, source, target)
        return target

    return copy_from


def _copy(source: torch.Tensor, target: torch.Tensor) -> None:
    target.copy_(source)


def _copying_and_resizing(fallback: Fallback) -> Kernel:
    copy_from = _copying(fallback)

    def copy_from_and_resize(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        target.resize_(source.size())
        result: torch.Tensor = copy_from(source, target)
        return result

    return copy_from_and_resize


def _resizing(fallback: Fallback) -> Kernel:
    def resize_(
        tensor: torch.Tensor, size: Sequence[int], *, memory_format: torch.memory_format | None = None
    ) -> torch.Tensor:
        if list(tensor.size()) == list(size) and memory_format is None:
            return tensor
        stride = torch.empty(size, device="meta", memory_format=memory_format or torch.contiguous_format)
        _require_room(fallback, tensor, private.offset_of(tensor), size, stride.stride())
        return tensor

    return resize_


def _require_room(
    fallback: Fallback, tensor: torch.Tensor, offset: int, size: Sequence[int], stride: Sequence[int]
) -> None:
    """Give `tensor` this geometry, and a bigger storage with the same bytes where its own is too small."""
    storage = tensor.untyped_storage()
    needed = _bytes_needed(tensor.element_size(), offset, size, stride)
    if needed > storage.nbytes():
        fallback.refusal.check_dtype(tensor.dtype)
        bigger = private.cpu_storage(needed)
        if storage.nbytes():
            bytes_now = torch.empty(0, dtype=torch.uint8, device="cpu").set_(
                private.borrowed_storage(storage)
            )
            torch.empty(0, dtype=torch.uint8, device="cpu").set_(bigger)[: storage.nbytes()].copy_(bytes_now)
        storage = private.device_storage(bigger)
    point(tensor, storage, offset, size, stride)


def _bytes_needed(itemsize: int, offset: int, size: Sequence[int], stride: Sequence[int]) -> int:
    if 0 in size:
        return 0
    last = sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    return (offset + last + 1) * itemsize


def _viewing_as(fallback: Fallback) -> Kernel:
    def view_as(tensor: torch.Tensor, dtype: torch.dtype) -> Any:
        return fallback.view(aten.view.dtype, private.COMPOSITE_KEY, tensor, dtype)

    return view_as


def _set_to_nothing(tensor: torch.Tensor) -> torch.Tensor:
    empty = private.empty_device_tensor(tensor.dtype)
    return point(tensor, empty.untyped_storage(), 0, [0], [1])


def _set_to_storage(tensor: torch.Tensor, storage: torch.UntypedStorage) -> torch.Tensor:
    return _set_to_part_of_storage(tensor, storage, 0, [storage.nbytes() // tensor.element_size()], [1])


def _set_to_tensor(tensor: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return _set_to_part_of_storage(
        tensor, source.untyped_storage(), private.offset_of(source), source.size(), source.stride()
    )


def _set_to_part_of_storage(
    tensor: torch.Tensor,
    storage: torch.UntypedStorage,
    offset: int,
    size: Sequence[int],
    stride: Sequence[int] = (),
) -> torch.Tensor:
    if storage.device != tensor.device:
        raise RuntimeError(
            f"Attempted to set the storage of a tensor on device '{tensor.device}' to a storage on "
            f"different device '{storage.device}'.  This is no longer allowed; the devices must match."
        )
    if len(stride) != len(size):
        stride = torch.empty(size, device="meta").stride()
    if _bytes_needed(tensor.element_size(), offset, size, stride) > storage.nbytes():
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset} are out of "
            f"bounds for storage of size {storage.nbytes()}"
        )
    return point(tensor, storage, offset, size, stride)


def _zeros(size: Sequence[int], **options: Any) -> torch.Tensor:
    # A tensor of zeros without memory would need its own dispatch key; zeros with memory are the same
    # numbers.
    return torch.zeros(size, dtype=options.get("dtype"), device=DEVICE_TYPE)


def _convolutions(fallback: Fallback) -> dict[str, Kernel]:
    """Convolutions, which torch leaves to the backend under names of their own."""

    def forward(*args: Any) -> Any:
        return fallback(aten.convolution.default, *args)

    def backward(
        grad: torch.Tensor, tensor: torch.Tensor, weight: torch.Tensor, *rest: Any, **options: Any
    ) -> Any:
        # The bias is as long as the gradient has channels; only whether it is wanted is said.
        return fallback(
            aten.convolution_backward.default, grad, tensor, weight, [grad.size(1)], *rest, **options
        )

    return {"convolution_overrideable": forward, "convolution_backward_overrideable": backward}
