"""The few Python names of torch that no backend can serve by kernels, and what they do for the device."""

from __future__ import annotations

import copyreg
from typing import Any

import torch

from ci.device import private
from ci.device.environment import DEVICE_TYPE
from ci.device.generator import Generator, reduce_generator

_new_storage: Any = torch.UntypedStorage.__new__
_numpy: Any = torch.Tensor.numpy


def apply_patches() -> None:
    """Teach torch's own classes about the device; anything that is not the device's takes the old way."""
    # C++ has no allocator for the device and no way to ask Python for one: it would end the process.
    setattr(torch.UntypedStorage, "__new__", _storage)  # noqa: B010  # mypy forbids to assign it
    setattr(torch.UntypedStorage, DEVICE_TYPE, _storage_to_device)
    setattr(torch.Tensor, "numpy", _to_numpy)  # noqa: B010  # mypy forbids to assign it
    setattr(torch, "Generator", Generator)  # noqa: B010  # mypy forbids to assign a type
    copyreg.pickle(private.BaseGenerator, reduce_generator)


def _storage(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> torch.UntypedStorage:
    if device is None or torch.device(device).type != DEVICE_TYPE:
        options = kwargs if device is None else {"device": device, **kwargs}
        made: torch.UntypedStorage = _new_storage(cls, *args, **options)
        return made
    content = _new_storage(cls, *args, **kwargs)
    return private.device_storage(content)


def _storage_to_device(
    storage: torch.UntypedStorage, device: Any = None, non_blocking: bool = False
) -> torch.UntypedStorage:
    """The storage on the device: itself where it is there already, else a copy."""
    del device, non_blocking
    if storage.device.type == DEVICE_TYPE:
        return storage
    return private.device_storage(private.cpu_storage(storage.nbytes()).copy_(storage))


def _to_numpy(self: torch.Tensor, *, force: bool = False) -> Any:
    """The values as a NumPy array.

    For a tensor of the emulated device it is a copy that shares no memory, made as `.cpu().numpy()`
    makes it. Real accelerators refuse this call; here it works, so a missing transfer in the code under
    test does not show. A tensor that requires grad is refused unless `force` is set, as anywhere.
    """
    host = self.cpu() if self.device.type == DEVICE_TYPE else self
    return _numpy(host, force=force)
