"""Tensors of the device over CPU memory, and CPU tensors over the device's.

A tensor of the emulated device is a real strided tensor whose storage says `spyre:0` and whose bytes are a
CPU allocation. For the time of one call the CPU sees the same bytes through tensors with the same
storages, offsets and strides, so that a kernel's checks for overlap see what they would see on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ci.device import private
from ci.device.environment import DEVICE_TYPE
from ci.device.refusal import Refusal

_set_storage = torch.ops.aten.set_.source_Storage_storage_offset


def is_device_tensor(value: object) -> bool:
    """Whether `value` is a tensor of the emulated device."""
    return isinstance(value, torch.Tensor) and value.device.type == DEVICE_TYPE


def point(
    tensor: torch.Tensor,
    storage: torch.UntypedStorage,
    offset: int,
    size: Sequence[int],
    stride: Sequence[int],
) -> torch.Tensor:
    """Make `tensor`, of the device, look at `storage`; offset and strides count elements."""
    # The CPU's kernel only writes metadata here: the storage is never too small.
    _set_storage.redispatch(private.CPU_KEY, tensor, storage, offset, size, stride)
    return tensor


class Memory:
    """The storages of one call: each of the device's beside the CPU's over the same bytes."""

    def __init__(self, refusal: Refusal) -> None:
        self._refusal = refusal
        self._cpu: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        self._device: dict[int, torch.UntypedStorage] = {}
        self._tensors: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def on_cpu(self, tensor: torch.Tensor, *, own: bool = False) -> torch.Tensor:
        """The CPU tensor over the memory of `tensor`, a tensor of the device.

        Args:
            tensor: a tensor of the device.
            own: copy the memory, so that the kernel may resize it.
        """
        storage = tensor.untyped_storage()
        empty = torch.empty(0, dtype=tensor.dtype, device="cpu")
        alias = empty.set_(
            self._cpu_storage(storage, own=own), private.offset_of(tensor), tensor.size(), tensor.stride()
        )
        if tensor.is_conj():
            alias = private.conjugate_view(alias)
        if tensor.is_neg():
            alias = private.negative_view(alias)
        # The alias is kept too: a dead object's id would be given to another.
        self._tensors[id(alias)] = (alias, tensor)
        return alias

    def on_device(self, result: torch.Tensor) -> torch.Tensor:
        """What the caller gets for a CPU `result`: the very argument, a view of one, or a new tensor."""
        known = self._tensors.get(id(result))
        if known is not None:
            return known[1]
        if result.layout is not torch.strided:
            raise NotImplementedError(
                f"The layout {result.layout} is not supported on the {DEVICE_TYPE!r} device."
            )
        self._refusal.check_dtype(result.dtype)
        tensor = private.empty_device_tensor(result.dtype)
        point(
            tensor,
            self._device_storage(result.untyped_storage()),
            private.offset_of(result),
            result.size(),
            result.stride(),
        )
        if result.is_conj():
            tensor = private.conjugate_view(tensor)
        if result.is_neg():
            tensor = private.negative_view(tensor)
        return tensor

    def follow(self, alias: torch.Tensor) -> None:
        """Give the device's tensor the shape and the memory that a kernel gave its CPU alias."""
        tensor = self._tensors[id(alias)][1]
        storage = self._device_storage(alias.untyped_storage())
        same = (
            storage is tensor.untyped_storage()
            and alias.size() == tensor.size()
            and alias.stride() == tensor.stride()
            and private.offset_of(alias) == private.offset_of(tensor)
        )
        if not same:
            point(tensor, storage, private.offset_of(alias), alias.size(), alias.stride())

    def _cpu_storage(self, storage: torch.UntypedStorage, *, own: bool) -> torch.UntypedStorage:
        key = private.storage_id(storage)
        pair = self._cpu.get(key)
        if pair is None:
            if storage.nbytes() == 0:
                cpu = private.cpu_storage(0)
            else:
                cpu = private.borrowed_storage(storage)
                cpu = private.cpu_storage(cpu.nbytes()).copy_(cpu) if own else cpu
            pair = self._cpu[key] = (cpu, storage)
            if not own:
                self._device[private.storage_id(cpu)] = storage
        return pair[0]

    def _device_storage(self, cpu: torch.UntypedStorage) -> torch.UntypedStorage:
        key = private.storage_id(cpu)
        storage = self._device.get(key)
        # An empty storage that a kernel resized is no longer the memory of its partner.
        if storage is None or storage.nbytes() != cpu.nbytes():
            storage = self._device[key] = private.device_storage(cpu)
        return storage
